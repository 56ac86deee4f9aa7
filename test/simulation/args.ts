import { parseArgs } from "node:util";
import { defaultRequests } from "./simulate.ts";

export const help = `npm run simulate -- [options]

The real core under a seeded scheduler: crashes, delays, lost and repeated messages, a failing provider, stale
indexes and skewed clocks. After each history the invariants of the design hold, and everything settles.

  --seeds N      how many histories (default 200)
  --from S       the first seed (default 1)
  --seed S       one seed alone: replays it exactly
  --requests N   requests of each user in a history (default ${defaultRequests})
  --trace        with --seed: print every step
  --exhaustive   instead: one task, every order of a few actors' steps
  --json         one JSON line on stdout
  --help         this

Exit code 0 where all held, 1 where something was found, 2 for arguments that make no sense.`;

export interface Arguments {
  mode: "help" | "seeds" | "exhaustive";
  from: number;
  to: number;
  requests: number;
  trace: boolean;
  json: boolean;
}

export class UsageError extends Error {}

export function parseArguments(argv: readonly string[]): Arguments {
  const { values } = parse(argv);
  const only = whole("seed", values.seed);
  if (only !== undefined && (values.seeds ?? values.from) !== undefined) {
    throw new UsageError("--seed runs one seed and excludes --seeds and --from");
  }
  if (values.trace && only === undefined) throw new UsageError("--trace needs --seed");
  const from = only ?? whole("from", values.from) ?? 1;
  const seeds = only === undefined ? (whole("seeds", values.seeds) ?? 200) : 1;
  return {
    mode: values.help ? "help" : values.exhaustive ? "exhaustive" : "seeds",
    from,
    to: from + seeds - 1,
    requests: whole("requests", values.requests) ?? defaultRequests,
    trace: values.trace ?? false,
    json: values.json ?? false,
  };
}

function parse(argv: readonly string[]) {
  try {
    return parseArgs({
      args: [...argv],
      options: {
        seeds: { type: "string" },
        from: { type: "string" },
        seed: { type: "string" },
        requests: { type: "string" },
        trace: { type: "boolean" },
        exhaustive: { type: "boolean" },
        json: { type: "boolean" },
        help: { type: "boolean" },
      },
    });
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : "invalid arguments");
  }
}

function whole(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new UsageError(`--${name} takes a positive integer, not ${text}`);
  return Number(text);
}
