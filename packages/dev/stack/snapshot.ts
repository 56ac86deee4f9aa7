/** `npm run snapshot`: asks a running Concierge to build its base snapshot and waits for it. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

export const help = `Builds the base snapshot for new sandboxes: npm run snapshot -- [options]

It contains what the shell script in SANDBOX_SETUP installs. Set that where Concierge runs.

  --url URL        address of Concierge (default $CONCIERGE_URL, else http://127.0.0.1:4000)
  --data-dir DIR   data directory of \`npm run dev\`, for its admin key (default .concierge/);
                   $CONCIERGE_API_KEY takes precedence
  --json           print one JSON line on stdout when ready
  --help           print this text

Exit code: 0 if it was built, 1 if not, 2 for invalid arguments.
`;

const pollMs = 500;

interface Base {
  state: string;
  snapshotId: string | null;
  detail: string | null;
}

export async function main(args: string[], env: NodeJS.ProcessEnv = process.env): Promise<number> {
  const options = read(args);
  if (typeof options === "string") return exitWith(process.stderr, `snapshot: ${options}`, 2);
  if (options.help) return exitWith(process.stdout, help.trimEnd(), 0);
  try {
    const key = env.CONCIERGE_API_KEY ?? (await keyFrom(options["data-dir"] ?? ".concierge"));
    const url = options.url ?? env.CONCIERGE_URL ?? "http://127.0.0.1:4000";
    const base = await build(url, key);
    const line = options.json ? JSON.stringify(base) : `The base snapshot ${base.snapshotId} is ready.`;
    if (base.state === "ready") return exitWith(process.stdout, line, 0);
    return exitWith(process.stderr, `snapshot: the build failed: ${base.detail}`, 1);
  } catch (error) {
    return exitWith(process.stderr, `snapshot: ${error instanceof Error ? error.message : String(error)}`, 1);
  }
}

async function build(url: string, key: string): Promise<Base> {
  const before = await request(url, key, "GET");
  await request(url, key, "POST");
  process.stderr.write("building");
  for (;;) {
    await sleep(pollMs);
    process.stderr.write(".");
    const base = await request(url, key, "GET");
    const isFinished =
      base.state === "failed" || (base.state === "ready" && base.snapshotId !== before.snapshotId);
    if (!isFinished) continue;
    process.stderr.write("\n");
    return base;
  }
}

async function request(url: string, key: string, method: "GET" | "POST"): Promise<Base> {
  const at = new URL("/v1/snapshot", url);
  const response = await fetch(at, { method, headers: { authorization: `Bearer ${key}` } }).catch(() => {
    throw new Error(`no answer from ${url}: is Concierge running there?`);
  });
  const body = (await response.json()) as Base & { detail?: string };
  if (!response.ok) throw new Error(`${method} ${at.pathname} answered ${response.status}: ${body.detail}`);
  return body;
}

async function keyFrom(dataDir: string): Promise<string> {
  const file = join(dataDir, "secrets.json");
  const text = await readFile(file, "utf8").catch(() => {
    throw new Error(`${file} does not exist: set CONCIERGE_API_KEY, or start \`npm run dev\` first`);
  });
  return String((JSON.parse(text) as Record<string, string>).AdminApiKey);
}

function read(args: string[]) {
  try {
    const options = {
      url: { type: "string" },
      "data-dir": { type: "string" },
      json: { type: "boolean" },
      help: { type: "boolean", short: "h" },
    } as const;
    return parseArgs({ args, options }).values;
  } catch (error) {
    return String(error instanceof Error ? error.message : error).split(/[.\n]/, 1)[0] ?? "";
  }
}

function exitWith(stream: NodeJS.WriteStream, text: string, code: number): number {
  stream.write(`${text}\n`);
  return code;
}
