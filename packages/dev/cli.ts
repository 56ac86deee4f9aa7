import { once } from "node:events";
import { bundleToTempDir } from "@concierge/bundler";
import { type Topology, topology } from "../../infra/topology.ts";
import { help, parseArguments, UsageError } from "./arguments.ts";
import { formatLogLine, rawLogLine } from "./logs/format.ts";
import { watchNpm } from "./processes/parent-watch.ts";
import { type LocalStack, startLocalStack } from "./stack/stack.ts";

/** Every child has its own limit for ending. This one is for unexpected cases. */
const shutdownTimeoutMs = 15_000;

export async function main(args: string[], stack: Topology = topology): Promise<void> {
  // The reader of our output may exit first; EPIPE must not end the stack out of order.
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
  const { help: wantsHelp, json, jsonLogs, bundled, ...options } = parseArguments(args);
  if (wantsHelp) return void process.stdout.write(help);
  await using bundles = bundled ? await bundleToTempDir(topology) : undefined;
  const stack = await startLocalStack({
    ...options,
    ...(bundles && { bundles: bundles.directory }),
    topology,
    onLog: createLogger(jsonLogs),
    signal: ending,
  });
  process.stdout.write(json ? readyLine(stack) : greeting(stack, options.dataDir, Date.now() - startedAt));
  // After the ready line, so it does not delay the start.
  stack.prepareDashboard().catch((error: unknown) => {
    if (!ending.aborted) process.stderr.write(`concierge-dev: the dashboard: ${describe(error)}\n`);
  });
  if (!ending.aborted) await once(ending, "abort");
  await stack.close();
}

/** Repeated signals, at any time, lead to one orderly shutdown. */
function endOnSignals(): AbortSignal {
  const ending = new AbortController();
  const end = () => {
    ending.abort();
    setTimeout(() => process.exit(0), shutdownTimeoutMs).unref();
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, end);
  watchNpm(end);
  return ending.signal;
}

function createLogger(jsonLogs: boolean): (line: string) => void {
  const useColor = process.stderr.hasColors?.() ?? false;
  return (line) => {
    const lines = jsonLogs ? [rawLogLine(line)] : formatLogLine(line, useColor);
    for (const text of lines) process.stderr.write(`${text}\n`);
  };
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if ("code" in error && error.code === "EADDRINUSE" && "port" in error) {
    return `port ${error.port} is in use: choose another with --port, or 0 for a free one`;
  }
  return error.message;
}

function readyLine({ url, apiKey, userId }: LocalStack): string {
  return `${JSON.stringify({ ready: true, url, apiKey, userId })}\n`;
}

function greeting({ url, apiKey }: LocalStack, dataDir: string, tookMs: number): string {
  return `
Concierge is ready at ${url} (${(tookMs / 1000).toFixed(1)} s)

  page  ${url}/
  key   ${apiKey}
  data  ${dataDir}
  try   curl ${url}/v1/tasks -H 'authorization: Bearer ${apiKey}' \\
          -H 'content-type: application/json' -d '{"prompt":"echo hello"}'

Press Ctrl-C to stop.
`;
}
