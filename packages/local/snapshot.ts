/** `npm run snapshot`: has a running Concierge build its base snapshot, and waits for it. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

export const HELP = `Builds the base snapshot that new sandboxes are made from: npm run snapshot -- [options]

What is in it: whatever SANDBOX_SETUP, a shell script, installs where Concierge runs.

  --url URL        where Concierge is (default $CONCIERGE_URL, else http://127.0.0.1:4000)
  --data-dir DIR   where \`npm run dev\` keeps its admin key (default .concierge/); $CONCIERGE_API_KEY goes first
  --json           one JSON line on stdout when it is there
  --help           this text

Exit code 0 when it is built, 1 when it could not be, 2 for arguments that make no sense.
`;

const pollMs = 500;

interface Base {
  state: string;
  snapshotId: string | null;
  detail: string | null;
}

export async function main(args: string[], env: NodeJS.ProcessEnv = process.env): Promise<number> {
  const options = read(args);
  if (typeof options === "string") return say(process.stderr, `snapshot: ${options}`, 2);
  if (options.help) return say(process.stdout, HELP.trimEnd(), 0);
  try {
    const key = env.CONCIERGE_API_KEY ?? (await keyFrom(options["data-dir"] ?? ".concierge"));
    const url = options.url ?? env.CONCIERGE_URL ?? "http://127.0.0.1:4000";
    const base = await build(url, key);
    const line = options.json ? JSON.stringify(base) : `The base snapshot ${base.snapshotId} is ready.`;
    if (base.state === "ready") return say(process.stdout, line, 0);
    return say(process.stderr, `snapshot: it could not be built: ${base.detail}`, 1);
  } catch (error) {
    return say(process.stderr, `snapshot: ${error instanceof Error ? error.message : String(error)}`, 1);
  }
}

async function build(url: string, key: string): Promise<Base> {
  const before = await ask(url, key, "GET");
  await ask(url, key, "POST");
  process.stderr.write("building");
  for (;;) {
    await sleep(pollMs);
    process.stderr.write(".");
    const base = await ask(url, key, "GET");
    const isOver =
      base.state === "failed" || (base.state === "ready" && base.snapshotId !== before.snapshotId);
    if (!isOver) continue;
    process.stderr.write("\n");
    return base;
  }
}

async function ask(url: string, key: string, method: "GET" | "POST"): Promise<Base> {
  const at = new URL("/v1/snapshot", url);
  const response = await fetch(at, { method, headers: { authorization: `Bearer ${key}` } }).catch(() => {
    throw new Error(`nothing answers at ${url}: is it running, and is that its address?`);
  });
  const body = (await response.json()) as Base & { detail?: string };
  if (!response.ok) throw new Error(`${method} ${at.pathname} answered ${response.status}: ${body.detail}`);
  return body;
}

async function keyFrom(dataDir: string): Promise<string> {
  const file = join(dataDir, "secrets.json");
  const text = await readFile(file, "utf8").catch(() => {
    throw new Error(`there is no ${file}: set CONCIERGE_API_KEY, or start \`npm run dev\` first`);
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

function say(stream: NodeJS.WriteStream, text: string, code: number): number {
  stream.write(`${text}\n`);
  return code;
}
