import path from "node:path";
import { parseArgs } from "node:util";
import { type SandboxApi, type SandboxApiOptions, startSandboxApi } from "./index.ts";

const help = `Runs Vercel's Sandbox API on loopback, for the real @vercel/sandbox SDK.

Usage: vercel-sandbox-local [options]

  --port <number>           port to listen on (default: a free one)
  --data-dir <path>         directory for sandboxes and snapshots (default: .vercel-sandbox-local)
  --max-sandboxes <number>  most sandboxes that run at once (default: 2000)
  --isolation <mode>        auto, bwrap or none (default: auto)
  --token <token>           bearer token to accept (default: $VERCEL_SANDBOX_LOCAL_TOKEN, or a random one)
  --allow-private <where>   private addresses that sandboxes may reach: "all", or host:port (repeatable)
  --control-token <token>   enable the control routes with this bearer token
  --json                    print one line of JSON when ready
  --help                    print this text
`;

const exitUsage = 2;

export async function main(args: string[]): Promise<void> {
  const parsed = parse(args);
  if ("problem" in parsed) return fail(parsed.problem, exitUsage);
  if (parsed.help) {
    process.stdout.write(help);
    return;
  }
  let api: SandboxApi;
  try {
    api = await startSandboxApi(parsed.options);
  } catch (error) {
    return fail(error instanceof Error ? error.message : String(error), 1);
  }
  let closing = false;
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.on(signal, () => {
      if (closing) return;
      closing = true;
      api.close().then(
        () => process.exit(0),
        (error: unknown) => fail(String(error), 1),
      );
    });
  }
  process.stdout.write(
    parsed.json
      ? `${JSON.stringify({ url: api.url, token: api.token, isolation: api.isolation })}\n`
      : greeting(api),
  );
}

type Parsed = { problem: string } | { help: boolean; json: boolean; options: SandboxApiOptions };

function parse(args: string[]): Parsed {
  try {
    const { values } = parseArgs({
      args,
      options: {
        port: { type: "string" },
        "data-dir": { type: "string", default: ".vercel-sandbox-local" },
        "max-sandboxes": { type: "string" },
        isolation: { type: "string", default: "auto" },
        token: { type: "string" },
        "allow-private": { type: "string", multiple: true },
        "control-token": { type: "string" },
        json: { type: "boolean", default: false },
        help: { type: "boolean", default: false },
      },
    });
    const port = wholeNumber("--port", values.port, 0, 65_535);
    const maxSandboxes = wholeNumber("--max-sandboxes", values["max-sandboxes"], 1, 1_000_000);
    const token = values.token ?? process.env.VERCEL_SANDBOX_LOCAL_TOKEN;
    const allowPrivate = values["allow-private"];
    return {
      help: values.help,
      json: values.json,
      options: {
        dataDir: path.resolve(values["data-dir"]),
        isolation: isolationMode(values.isolation),
        ...(port !== undefined && { port }),
        ...(token && { tokens: [token] }),
        ...(allowPrivate && {
          network: { allowPrivate: allowPrivate.includes("all") ? ("all" as const) : allowPrivate },
        }),
        ...(maxSandboxes !== undefined && { limits: { maxSandboxes } }),
        ...(values["control-token"] !== undefined && { controlToken: values["control-token"] }),
      },
    };
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) };
  }
}

function wholeNumber(
  name: string,
  text: string | undefined,
  least: number,
  most: number,
): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= least && value <= most) return value;
  throw new Error(`${name} must be a whole number from ${least} to ${most}, not "${text}"`);
}

function isolationMode(text: string): "auto" | "bwrap" | "none" {
  if (text === "auto" || text === "bwrap" || text === "none") return text;
  throw new Error(`--isolation must be auto, bwrap or none, not "${text}"`);
}

function greeting({ url, token, isolation }: SandboxApi): string {
  return `Vercel Sandbox API (local) on ${url}, isolation: ${isolation}

  import { Sandbox } from "@vercel/sandbox";
  import { localFetch } from "vercel-sandbox-local";
  const local = { token: "${token}", teamId: "team_local", projectId: "prj_local", fetch: localFetch("${url}") };
  const sandbox = await Sandbox.create(local);

Press Ctrl-C to stop all sandboxes and exit.
`;
}

function fail(message: string, code: number): void {
  process.stderr.write(`vercel-sandbox-local: ${message.split("\n")[0]}\n`);
  process.exit(code);
}
