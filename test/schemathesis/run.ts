/**
 * Runs schemathesis, generated from the OpenAPI document, against a running local stack. Installs it into a temporary
 * directory. Exits with 1 if it found something, with 2 if it could not run.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const version = "4.32.5";

const checks = [
  "not_a_server_error",
  "status_code_conformance",
  "content_type_conformance",
  "response_schema_conformance",
  "negative_data_rejection",
];

const { values } = parseArgs({
  options: {
    /** Per route: 5 are a thousand cases in about a minute, 320 more than 5,000. */
    "max-examples": { type: "string", default: "5" },
    seed: { type: "string", default: "1" },
    /** Fails with fewer cases: a document that lost its routes must not pass. */
    "min-cases": { type: "string", default: "500" },
    /** An installation to use instead of a new one. */
    schemathesis: { type: "string" },
  },
});

const directory = mkdtempSync(join(tmpdir(), "concierge-schemathesis-"));
let stack: ChildProcess | undefined;
try {
  process.exitCode = await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 2;
} finally {
  await end(stack);
  rmSync(directory, { recursive: true, force: true });
}

async function main(): Promise<number> {
  const program = values.schemathesis ?? install();
  const { url, apiKey } = await startStack();
  const config = join(directory, "schemathesis.toml");
  writeFileSync(config, await describeWorld(url, apiKey));
  const startedMs = performance.now();
  const { exitCode, output } = await run(program, [
    `--config-file=${config}`,
    "run",
    `${url}/openapi.json`,
    `--header=Authorization: Bearer ${apiKey}`,
    `--checks=${checks.join(",")}`,
    "--phases=examples,coverage,fuzzing",
    `--max-examples=${values["max-examples"]}`,
    `--seed=${values.seed}`,
    "--continue-on-failure",
    "--request-timeout=60",
    "--no-color",
  ]);
  const cases = Number(/([\d,]+) generated/.exec(output)?.[1]?.replaceAll(",", "") ?? 0);
  const seconds = Math.round((performance.now() - startedMs) / 1000);
  console.log(`schemathesis: ${cases} cases in ${seconds} s, exit code ${exitCode}`);
  return exitCode === 0 && cases >= Number(values["min-cases"]) ? 0 : 1;
}

function install(): string {
  const venv = join(directory, "venv");
  for (const [program, args] of [
    ["python3", ["-m", "venv", venv]],
    [join(venv, "bin/pip"), ["install", "--quiet", `schemathesis==${version}`]],
  ] as const) {
    const { status } = spawnSync(program, args, { stdio: ["ignore", "inherit", "inherit"] });
    if (status !== 0) throw new Error(`${program} ${args.join(" ")} failed`);
  }
  return join(venv, "bin/schemathesis");
}

/** Few sandboxes: the api is tested, and most requests for a sandbox should be refused. */
async function startStack(): Promise<{ url: string; apiKey: string }> {
  const dev = fileURLToPath(new URL("../../packages/dev/bin/concierge-dev.mjs", import.meta.url));
  const child = spawn(
    process.execPath,
    [dev, "--port", "0", "--json", "--data-dir", join(directory, "data")],
    {
      env: {
        ...process.env,
        POOL_MAX_SANDBOXES: "4",
        POOL_MAX_PER_USER: "4",
        AGENT_MAX_WAIT_TIME_MS: "5000",
      },
      stdio: ["ignore", "pipe", "pipe"],
    },
  );
  stack = child;
  let log = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    log = `${log}${text}`.slice(-20_000);
  });
  for await (const line of createInterface(child.stdout)) return JSON.parse(line);
  throw new Error(`the stack did not start: ${log}`);
}

/** An ended task and a session, so that not every id is unknown. */
async function describeWorld(url: string, apiKey: string): Promise<string> {
  const headers = { authorization: `Bearer ${apiKey}`, "content-type": "application/json" };
  const limits = { maxDurationMs: 120_000 };
  const body = JSON.stringify({ prompt: "echo hello", sessionKey: "fuzzed", limits });
  const answer = await fetch(`${url}/v1/tasks`, { method: "POST", headers, body });
  const { id } = (await answer.json()) as { id: string };
  let status = "queued";
  for (let looks = 0; looks < 6 && status !== "succeeded"; looks++) {
    const ended = await fetch(`${url}/v1/tasks/${id}?waitMs=25000`, { headers });
    ({ status } = (await ended.json()) as { status: string });
  }
  if (status !== "succeeded") throw new Error(`the first task is ${status}`);
  return [
    "[[operations]]",
    'include-path-regex = "^/v1/tasks/"',
    `parameters = { "path.id" = "${id}" }`,
    "[[operations]]",
    'include-path-regex = "^/v1/sessions/"',
    'parameters = { "path.key" = "fuzzed" }',
  ].join("\n");
}

async function run(program: string, args: string[]): Promise<{ exitCode: number | null; output: string }> {
  const child = spawn(program, args, { cwd: directory, stdio: ["ignore", "pipe", "inherit"] });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
    process.stdout.write(text);
  });
  const [exitCode] = await once(child, "close");
  return { exitCode, output };
}

async function end(child: ChildProcess | undefined): Promise<void> {
  if (!child || child.exitCode !== null) return;
  child.kill("SIGTERM");
  await Promise.race([once(child, "exit"), sleep(20_000, undefined, { ref: false })]);
}
