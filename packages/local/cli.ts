import { once } from "node:events";
import { type Topology, topology } from "../../infra/topology.ts";
import { HELP, parseArguments, UsageError } from "./arguments.ts";
import { bundleAside } from "./bundle.ts";
import { watchNpm } from "./parent-watch.ts";
import { type LocalStack, startLocalStack } from "./stack.ts";

/** Each process is given a bounded time to end; this bound is for what nobody thought of. */
const END_WITHIN_MS = 15_000;

export async function main(args: string[], stack: Topology = topology): Promise<void> {
  // Whoever reads our output may be gone before us.
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});
  const ending = endOnSignals();
  try {
    await run(args, stack, ending);
    process.exit(0);
  } catch (error) {
    if (ending.aborted) process.exit(0);
    process.stderr.write(`concierge-dev: ${describe(error)}\n`);
    process.exit(error instanceof UsageError ? 2 : 1);
  }
}

async function run(args: string[], topology: Topology, ending: AbortSignal): Promise<void> {
  const startedAt = Date.now();
  const { help, json, bundled, ...options } = parseArguments(args);
  if (help) return void process.stdout.write(HELP);
  const onLog = (line: string) => void process.stderr.write(`${line}\n`);
  await using bundles = bundled ? await bundleAside(topology) : undefined;
  const aside = bundles && { bundles: bundles.directory };
  const stack = await startLocalStack({ ...options, ...aside, topology, onLog, signal: ending });
  process.stdout.write(json ? readyLine(stack) : greeting(stack, options.dataDir, Date.now() - startedAt));
  if (!ending.aborted) await once(ending, "abort");
  await stack.close();
}

/** However often it is asked for, and at whatever moment, there is one orderly end. */
function endOnSignals(): AbortSignal {
  const ending = new AbortController();
  const end = () => {
    ending.abort();
    setTimeout(() => process.exit(0), END_WITHIN_MS).unref();
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, end);
  watchNpm(end);
  return ending.signal;
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if ("code" in error && error.code === "EADDRINUSE" && "port" in error) {
    return `the port ${error.port} is in use: choose another with --port, or 0 for any free one`;
  }
  return error.message;
}

function readyLine({ url, apiKey, userId }: LocalStack): string {
  return `${JSON.stringify({ ready: true, url, apiKey, userId })}\n`;
}

function greeting({ url, apiKey }: LocalStack, dataDir: string, tookMs: number): string {
  return `
Concierge is ready at ${url} (${(tookMs / 1000).toFixed(1)} s)

  key   ${apiKey}
  data  ${dataDir}
  try   curl ${url}/v1/tasks -H 'authorization: Bearer ${apiKey}' \\
          -H 'content-type: application/json' -d '{"prompt":"echo hello"}'

Ctrl-C ends it.
`;
}
