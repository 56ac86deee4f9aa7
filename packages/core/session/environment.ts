import { createHash } from "node:crypto";
import type { AcquireDeps } from "../deps.ts";
import { environmentNameMaxLength, environmentNamesMax } from "../limits.ts";
import type { SandboxRef, SessionName } from "../ports.ts";
import type { Environment } from "./schema.ts";

const tools = ["node", "npm", "git", "python3", "bash"];
const agents = { claude: "claude", codex: "codex", cursor: "cursor-agent" } as const;

/** Prints each program's file identity and the names of the variables. Runs none of the programs, so it is fast. */
const lightScript = `
for program in ${[...tools, ...Object.values(agents)].join(" ")}; do
  path=$(command -v "$program") && stat -L -c "%n %i %Y %s" "$path"
done
env -0 | tr '\\n\\0' ' \\n' | cut -d= -f1 | sort
`;

/** Prints versions, agents and variables, one per line: \`kind name value\`. */
const fullScript = `
${tools.map((tool) => `echo "version ${tool} $(${tool} --version 2>/dev/null | head -n 1)"`).join("\n")}
. /etc/os-release 2>/dev/null; echo "version os \${PRETTY_NAME:-unknown}"
${Object.entries(agents)
  .map(([agent, program]) => `command -v ${program} >/dev/null && echo "agent ${agent} -"`)
  .join("\n")}
env -0 | tr '\\n\\0' ' \\n' | cut -d= -f1 | sort | while read -r name; do echo "variable $name -"; done
`;

const timeoutMs = 20_000;
const maxBytes = 64 * 1024;

/**
 * Records what is in the session's sandbox: versions, agents and variable names, never values. If the fast script prints
 * the same as last time, the record is only renewed; otherwise the slow script runs.
 */
export async function refreshEnvironment(
  deps: AcquireDeps,
  { userId, sessionKey }: SessionName,
): Promise<void> {
  const { store, clock } = deps;
  const session = await store.getSession(userId, sessionKey);
  const sandbox = session?.sandbox;
  if (!session || sandbox?.state !== "ready") return;
  const light = await run(deps, sandbox, lightScript);
  if (light === undefined) return;
  const fingerprint = createHash("sha256").update(light).digest("hex").slice(0, 16);
  const known = session.environment;
  const isUnchanged = known?.sandbox === sandbox.sessionId && known.fingerprint === fingerprint;

  const found = isUnchanged ? known : await inspect(deps, sandbox);
  if (!found) return;
  const { versions, agents: installed, variables } = found;
  const probedAt = clock.now();
  const environment = {
    sandbox: sandbox.sessionId,
    probedAt,
    fingerprint,
    versions,
    agents: installed,
    variables,
  };
  await store.changeSession(userId, sessionKey, { epoch: session.epoch }, { set: { environment } });
}

type Found = Pick<Environment, "versions" | "agents" | "variables">;

async function inspect(deps: AcquireDeps, sandbox: SandboxRef): Promise<Found | undefined> {
  const text = await run(deps, sandbox, fullScript);
  return text === undefined ? undefined : parseEnvironment(text);
}

export function parseEnvironment(text: string): Found {
  const versions: Record<string, string> = {};
  const lines = text.split("\n").flatMap((line) => {
    const [, kind = "", name = "", value = ""] = /^(\w+) (\S+) (.*)$/.exec(line) ?? [];
    if (kind === "version" && value !== "" && known.has(name)) versions[name] = value.slice(0, maxLength);
    return kind === "agent" || kind === "variable"
      ? [{ kind, name: printable(name).slice(0, maxLength) }]
      : [];
  });
  const named = (kind: string) =>
    lines
      .filter((line) => line.kind === kind)
      .map(({ name }) => name)
      .slice(0, environmentNamesMax);
  const installed = named("agent").filter((agent) => agent in agents);
  return { versions, agents: [...new Set(installed)], variables: named("variable") };
}

/** The agent controls what a sandbox prints: keep only known names, and cut them. */
const known = new Set([...tools, "os"]);
const maxLength = environmentNameMaxLength;

function printable(name: string): string {
  return name.replace(/[^\x21-\x7e]/g, "?");
}

/** Undefined if the script was killed or failed. */
async function run(
  { provider }: AcquireDeps,
  sandbox: SandboxRef,
  script: string,
): Promise<string | undefined> {
  const { exitCode, stdout } = await provider.exec(sandbox, {
    cmd: "sh",
    args: ["-c", script],
    timeoutMs,
    maxBytes,
  });
  return exitCode === 0 ? stdout : undefined;
}
