import { parseArgs } from "node:util";

export const help = `Runs Concierge on this machine: npm run dev -- [options]

  --port N            port on 127.0.0.1; 0 picks a free one (default 4000)
  --data-dir DIR      keeps tasks, sandboxes and keys between runs (default .concierge/)
  --reap-every MS     time between reaper passes (default 60000)
  --api-processes N   API processes behind the port (default 1)
  --allow-unisolated  starts even if several users would share this machine without isolation
  --bundled           runs the bundles that are deployed instead of the sources
  --json              prints one JSON line on stdout when ready; logs go to stderr
  --json-logs         prints the log entries as JSON lines
  --help              prints this text
`;

export interface Arguments {
  port: number;
  dataDir: string;
  reapEveryMs?: number;
  apiProcesses: number;
  allowUnisolated: boolean;
  bundled: boolean;
  json: boolean;
  jsonLogs: boolean;
  help: boolean;
}

export class UsageError extends Error {}

export function parseArguments(args: string[]): Arguments {
  const values = parse(args);
  const reapEvery = values["reap-every"];
  if (values["data-dir"] === "") throw new UsageError("--data-dir takes a directory");
  return {
    port: wholeNumber("--port", values.port ?? "4000", 0, 65_535),
    dataDir: values["data-dir"] ?? ".concierge",
    apiProcesses: wholeNumber("--api-processes", values["api-processes"] ?? "1", 1, 32),
    ...(reapEvery !== undefined && { reapEveryMs: wholeNumber("--reap-every", reapEvery, 10, 86_400_000) }),
    allowUnisolated: values["allow-unisolated"] ?? false,
    bundled: values.bundled ?? false,
    json: values.json ?? false,
    jsonLogs: values["json-logs"] ?? false,
    help: values.help ?? false,
  };
}

function parse(args: string[]) {
  try {
    return parseArgs({
      args,
      options: {
        port: { type: "string" },
        "data-dir": { type: "string" },
        "reap-every": { type: "string" },
        "api-processes": { type: "string" },
        "allow-unisolated": { type: "boolean" },
        bundled: { type: "boolean" },
        json: { type: "boolean" },
        "json-logs": { type: "boolean" },
        help: { type: "boolean", short: "h" },
      },
    }).values;
  } catch (error) {
    const [sentence = ""] = String(error instanceof Error ? error.message : error).split(/[.\n]/, 1);
    throw new UsageError(sentence);
  }
}

function wholeNumber(name: string, value: string, min: number, max: number): number {
  const number = /^\d{1,9}$/.test(value) ? Number(value) : Number.NaN;
  if (number >= min && number <= max) return number;
  throw new UsageError(`${name} takes a whole number from ${min} to ${max}`);
}
