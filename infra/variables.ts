/** The size limit of a function's environment, as plain data without IaC imports. */
import { type FunctionDefinition, fileNames, secretVariables } from "./topology.ts";

/** Lambda's limit for names and values of all variables of a function. */
const maxBytes = 4096;

/** Space reserved per secret. Today's keys have up to 170 bytes. */
const secretBytes = 256;

/** Space for values that this program sets. */
const setByUs: Readonly<Record<string, number>> = {
  CONCIERGE_STAGE: 20,
  CONCIERGE_ALLOW_PRIVATE_HOSTS: 5,
  CONCIERGE_URL: 128,
};

/** SST's variables: the key and file of the encrypted resources, and the app's name. */
const sstBytes = 256;

export class VariablesError extends Error {
  override readonly name = "VariablesError";
}

/** Checked before a deploy, with the variables of its environment and space for values that are only known later. */
export function checkVariables(
  name: string,
  definition: FunctionDefinition,
  set: Readonly<Record<string, string | undefined>>,
): void {
  const sizes = [...definition.environment, ...Object.keys(fileNames(definition))].map((variable) => ({
    variable,
    bytes: sizeOf(variable, fileNames(definition)[variable] ?? set[variable]),
  }));
  const total = sizes.reduce((sum, { bytes }) => sum + bytes, sstBytes);
  if (total <= maxBytes) return;
  const [largest] = sizes.toSorted((one, other) => other.bytes - one.bytes);
  throw new VariablesError(
    `${name} may get ${total} bytes of variables, and Lambda allows ${maxBytes}. ` +
      `${largest?.variable} has ${largest?.bytes}: make it ${total - maxBytes} shorter` +
      `${largest?.variable === "SANDBOX_SETUP" ? ", for example by having it download a script" : ""}.`,
  );
}

function sizeOf(variable: string, value: string | undefined): number {
  const valueBytes = variable in secretVariables ? secretBytes : (setByUs[variable] ?? bytesOf(value ?? ""));
  return valueBytes === 0 ? 0 : bytesOf(variable) + valueBytes;
}

function bytesOf(text: string): number {
  return Buffer.byteLength(text);
}
