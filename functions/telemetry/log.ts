import { currentContext } from "../context.ts";
import { mask } from "./mask.ts";
import { describeError } from "./safe-error.ts";

type Fields = Readonly<Record<string, unknown>>;

/** One line of JSON per event, with the fields of the current context. */
export const log = {
  info(message: string, fields: Fields = {}): void {
    write("info", message, fields);
  },
  error(message: string, error: unknown, fields: Fields = {}): void {
    write("error", message, { ...fields, error: describeError(error) });
  },
};

function write(level: "info" | "error", message: string, fields: Fields): void {
  const time = new Date().toISOString();
  const source = { function: process.env.AWS_LAMBDA_FUNCTION_NAME };
  // Not with `console`: Lambda prefixes its lines.
  process.stdout.write(
    `${mask(JSON.stringify({ level, message, time, ...source, ...currentContext(), ...fields }))}\n`,
  );
}
