/** How large a function's environment may be: plain data, no IaC import here. */
import { type FunctionDefinition, fileNames, secretVariables } from "./topology.ts";

/** What Lambda takes for all variables of a function together, names and values. */
const maxBytes = 4096;

/** The longest value of a secret that there is room for: today's keys have up to 170 bytes. */
const secretBytes = 256;

/** What the program sets by itself, at its longest. */
const setByUs: Readonly<Record<string, number>> = {
  CONCIERGE_STAGE: 20,
  CONCIERGE_ALLOW_PRIVATE_HOSTS: 5,
  CONCIERGE_URL: 128,
};

/** SST's own: the key that its resources are encrypted with, the file they are in, and the application's name. */
const sstBytes = 256;

export class VariablesError extends Error {
  override readonly name = "VariablesError";
}

/** Before a deploy: what is set where it runs, with room for the longest of what is only known later. */
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
    `${name} may get ${total} bytes of variables, and Lambda takes ${maxBytes} for all of them. ` +
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
