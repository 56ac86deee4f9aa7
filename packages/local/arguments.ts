import { parseArgs } from "node:util";

export const HELP = `Runs Concierge on this machine: npm run dev -- [options]

  --port N            port on 127.0.0.1, 0 for any free one (default 4000)
  --data-dir DIR      what is kept between runs (default .concierge/)
  --reap-every MS     how often the reaper runs (default 60000)
  --api-processes N   processes of the API behind the port (default 1)
  --bundled           run the functions' bundles, as they are shipped to Lambda, instead of their sources
  --json              one JSON line on stdout when ready, for programs
  --help              this text
`;

export interface Arguments {
  port: number;
  dataDir: string;
  reapEveryMs?: number;
  apiProcesses: number;
  bundled: boolean;
  json: boolean;
  help: boolean;
}

export class UsageError extends Error {}

export function parseArguments(args: string[]): Arguments {
  const values = read(args);
  const reapEvery = values["reap-every"];
  if (values["data-dir"] === "") throw new UsageError("--data-dir takes a directory");
  return {
    port: whole("--port", values.port ?? "4000", 0, 65_535),
    dataDir: values["data-dir"] ?? ".concierge",
    apiProcesses: whole("--api-processes", values["api-processes"] ?? "1", 1, 32),
    ...(reapEvery !== undefined && { reapEveryMs: whole("--reap-every", reapEvery, 10, 86_400_000) }),
    bundled: values.bundled ?? false,
    json: values.json ?? false,
    help: values.help ?? false,
  };
}

function read(args: string[]) {
  try {
    return parseArgs({
      args,
      options: {
        port: { type: "string" },
        "data-dir": { type: "string" },
        "reap-every": { type: "string" },
        "api-processes": { type: "string" },
        bundled: { type: "boolean" },
        json: { type: "boolean" },
        help: { type: "boolean", short: "h" },
      },
    }).values;
  } catch (error) {
    const [sentence = ""] = String(error instanceof Error ? error.message : error).split(/[.\n]/, 1);
    throw new UsageError(sentence);
  }
}

function whole(name: string, value: string, min: number, max: number): number {
  const number = /^\d{1,9}$/.test(value) ? Number(value) : Number.NaN;
  if (number >= min && number <= max) return number;
  throw new UsageError(`${name} takes a whole number from ${min} to ${max}`);
}
