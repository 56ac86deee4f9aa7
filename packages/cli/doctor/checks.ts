import { type Client, ConciergeError, createClient } from "@concierge/client";
import type { Connection } from "../connection/resolve.ts";
import { explain } from "../errors.ts";
import { formatDuration } from "../view/format.ts";

export interface Check {
  name: string;
  /** `note` is for what is optional. */
  result: "ok" | "note" | "warn" | "fail";
  detail: string;
  fix?: string;
}

/** What the checks look at. */
export interface Machine {
  nodeVersion: string;
  env: NodeJS.ProcessEnv;
  now(): number;
  fetch: typeof fetch;
  /** Runs a program. `missing` if it does not exist. */
  run(file: string, args: string[]): Promise<"ok" | "failed" | "missing">;
  isPortFree(port: number): Promise<boolean>;
  /** Whether others than the owner may read the stored profiles. */
  areProfilesExposed(): Promise<boolean>;
}

export const devPort = 4000;
const skewMaxMs = 5_000;
const answerMaxMs = 10_000;
const vercelApi = "https://api.vercel.com";

export async function* runChecks(machine: Machine, { url, key }: Connection): AsyncGenerator<Check> {
  yield checkNode(machine);
  yield await checkIsolation(machine);
  yield await checkPort(machine);
  yield await checkJava(machine);
  yield checkAgents(machine);
  yield await checkCredentials(machine, url, key);
  const server = await askServer(machine, url);
  yield* server.checks;
  if (server.isUp && key)
    yield* checkServer(createClient({ url, apiKey: key, fetch: machine.fetch, retries: 1 }));
  if (machine.env.VERCEL_TOKEN) yield await checkVercel(machine);
}

function checkNode({ nodeVersion }: Machine): Check {
  const [major = 0, minor = 0] = nodeVersion.split(".").map(Number);
  const name = "node";
  if (major > 22 || (major === 22 && minor >= 18)) return { name, result: "ok", detail: nodeVersion };
  const fix = "Install Node.js 24, or use the one that `npm ci` installs: `npm run concierge -- doctor`.";
  return { name, result: "fail", detail: `${nodeVersion} is too old: 22.18 or later is needed`, fix };
}

async function checkIsolation({ run }: Machine): Promise<Check> {
  const name = "isolation";
  switch (await run("bwrap", ["--ro-bind", "/", "/", "--unshare-pid", "--proc", "/proc", "true"])) {
    case "ok":
      return { name, result: "ok", detail: "bubblewrap works" };
    case "missing":
      return {
        name,
        result: "warn",
        detail: "bubblewrap is not installed, so local sandboxes are not isolated",
        fix: "apt install bubblewrap",
      };
    case "failed":
      return {
        name,
        result: "warn",
        detail: "bubblewrap cannot create namespaces, so local sandboxes are not isolated",
        fix: "Allow user namespaces: `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`, or in a container `--privileged`.",
      };
  }
}

async function checkPort({ isPortFree, fetch }: Machine): Promise<Check> {
  const name = "port";
  if (await isPortFree(devPort))
    return { name, result: "ok", detail: `${devPort} is free for \`concierge dev\`` };
  const health = await askHealth(fetch, `http://127.0.0.1:${devPort}`).catch(() => undefined);
  if (health?.isConcierge) return { name, result: "ok", detail: `Concierge runs on ${devPort}` };
  return {
    name,
    result: "warn",
    detail: `${devPort} is used by another program`,
    fix: "Choose another port: `concierge dev --port 0`.",
  };
}

async function checkJava({ run }: Machine): Promise<Check> {
  if ((await run("java", ["-version"])) === "ok") return { name: "java", result: "ok", detail: "installed" };
  return {
    name: "java",
    result: "note",
    detail: "not installed; only the tests on DynamoDB Local need it",
    fix: "apt install default-jre-headless",
  };
}

function checkAgents({ env }: Machine): Check {
  const keys = { claude: "ANTHROPIC_API_KEY", codex: "OPENAI_API_KEY", cursor: "CURSOR_API_KEY" };
  const known = Object.entries(keys).filter(([, name]) => env[name]);
  if (known.length > 0)
    return {
      name: "agents",
      result: "ok",
      detail: `keys here for ${known.map(([agent]) => agent).join(", ")}`,
    };
  return {
    name: "agents",
    result: "note",
    detail: "no agent key in this environment; a local stack can run only `--agent shell`",
    fix: `Set ${Object.values(keys).join(", ")} before \`concierge dev\`.`,
  };
}

async function checkCredentials(machine: Machine, url: string, key: string | undefined): Promise<Check> {
  const name = "credentials";
  if (await machine.areProfilesExposed())
    return {
      name,
      result: "fail",
      detail: "others can read the stored keys",
      fix: "Run `concierge login` again; it stores them for you alone.",
    };
  if (key) return { name, result: "ok", detail: `a key for ${url}` };
  return {
    name,
    result: "fail",
    detail: `no key for ${url}`,
    fix: "Run `concierge login`, or set CONCIERGE_API_KEY.",
  };
}

async function askServer({ fetch, now }: Machine, url: string): Promise<{ isUp: boolean; checks: Check[] }> {
  const name = "server";
  const from = now();
  try {
    const { isConcierge, version, date } = await askHealth(fetch, url);
    if (!isConcierge) {
      const fix = "Check --url or CONCIERGE_URL.";
      return {
        isUp: false,
        checks: [{ name, result: "fail", detail: `${url} is not a Concierge server`, fix }],
      };
    }
    const tookMs = now() - from;
    const detail = `${url} answers in ${formatDuration(tookMs)}, version ${version}`;
    return { isUp: true, checks: [{ name, result: "ok", detail }, checkClock(date, from + tookMs / 2)] };
  } catch {
    const fix = "Start one with `concierge dev`, or check --url and CONCIERGE_URL.";
    return { isUp: false, checks: [{ name, result: "fail", detail: `nothing answers at ${url}`, fix }] };
  }
}

async function askHealth(fetch: Machine["fetch"], url: string) {
  const response = await fetch(`${url}/healthz`, { signal: AbortSignal.timeout(answerMaxMs) });
  const body = (await response.json().catch(() => undefined)) as
    | { status?: unknown; version?: unknown }
    | undefined;
  return { isConcierge: body?.status === "ok", version: body?.version, date: response.headers.get("date") };
}

/** `Date` has a resolution of one second. */
function checkClock(date: string | null, localMs: number): Check {
  const name = "clock";
  const serverMs = Date.parse(date ?? "");
  if (Number.isNaN(serverMs))
    return { name, result: "note", detail: "the server does not say what time it is" };
  const skewMs = localMs - (serverMs + 500);
  if (Math.abs(skewMs) <= skewMaxMs) return { name, result: "ok", detail: "agrees with the server's" };
  const direction = skewMs > 0 ? "ahead of" : "behind";
  return {
    name,
    result: "warn",
    detail: `this machine's clock is ${formatDuration(Math.abs(skewMs))} ${direction} the server's`,
    fix: "Turn on time synchronization: `timedatectl set-ntp true`. Webhook signatures are refused with a wrong clock.",
  };
}

async function* checkServer(client: Client): AsyncGenerator<Check> {
  try {
    const { userId, scopes } = await client.me();
    yield { name: "key", result: "ok", detail: `accepted; user ${userId}, scopes ${scopes.join(", ")}` };
  } catch (error) {
    const { message, next = "" } = explain(error);
    yield { name: "key", result: "fail", detail: message, fix: next };
    return;
  }
  yield await checkProvider(client);
}

/** Admins: a dry run of the reaper lists the provider's sandboxes. Others: a session's health, if there is a session. */
async function checkProvider(client: Client): Promise<Check> {
  const name = "provider";
  const fix = "Look at the provider's status page and at the server's logs.";
  try {
    const { failures } = await client.reap({ dryRun: true });
    if (failures.length === 0) return { name, result: "ok", detail: "the server reaches it" };
    return { name, result: "fail", detail: failures.join("; "), fix };
  } catch (error) {
    if (!(error instanceof ConciergeError && error.status === 403)) {
      return { name, result: "fail", detail: explain(error).message, fix };
    }
  }
  const { items } = await client.sessions.list({ limit: 1, probe: true });
  const health = items.find(({ sandbox }) => sandbox)?.health;
  if (health === "unknown") return { name, result: "fail", detail: "it does not answer the server", fix };
  if (health) return { name, result: "ok", detail: "the server reaches it" };
  return {
    name,
    result: "note",
    detail: "not checked: that needs an admin's key, or a session with a sandbox",
  };
}

/** The credentials that a stack started here would use. */
async function checkVercel({ env, fetch }: Machine): Promise<Check> {
  const name = "vercel";
  const { VERCEL_TOKEN: token, VERCEL_TEAM_ID: team = "", VERCEL_PROJECT_ID: project = "" } = env;
  const missing = ["VERCEL_TEAM_ID", "VERCEL_PROJECT_ID"].filter((variable) => !env[variable]);
  if (missing.length > 0)
    return {
      name,
      result: "fail",
      detail: "VERCEL_TOKEN is set alone",
      fix: `Also set ${missing.join(" and ")}.`,
    };
  const url = `${vercelApi}/v9/projects/${encodeURIComponent(project)}?teamId=${encodeURIComponent(team)}`;
  try {
    const { status } = await fetch(url, {
      headers: { authorization: `Bearer ${token}` },
      signal: AbortSignal.timeout(answerMaxMs),
    });
    if (status === 200) return { name, result: "ok", detail: "token, team and project are accepted" };
    const fix = "Check VERCEL_TOKEN, VERCEL_TEAM_ID and VERCEL_PROJECT_ID.";
    return { name, result: "fail", detail: `Vercel answered ${status}`, fix };
  } catch {
    const fix = "Check the network and proxy of this machine.";
    return { name, result: "fail", detail: `${vercelApi} cannot be reached`, fix };
  }
}
