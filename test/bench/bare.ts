import type { LocalStack } from "@concierge/dev";
import { Sandbox, type Session } from "@vercel/sandbox";
import { localFetch } from "vercel-sandbox-local";

export type BareCommand = Awaited<ReturnType<typeof launchBare>>;

/** A sandbox of the same sandbox API, used through the bare SDK. */
export async function createBareSandbox({
  endpoints: { sandbox: endpoint },
  sandboxToken,
}: Pick<LocalStack, "endpoints" | "sandboxToken">): Promise<Session> {
  if (endpoint === undefined)
    throw new Error("the stack runs on the real provider; this is for the local one");
  const sandbox = await Sandbox.create({
    token: sandboxToken,
    teamId: "local",
    projectId: "local",
    fetch: localFetch(endpoint),
    runtime: "node24",
    persistent: false,
    timeout: 20 * 60_000,
  });
  return sandbox.currentSession();
}

/** What is launched: bash on the script, like the shell agent, or a Node process around it, like the runner. */
const programs = {
  bash: (path: string) => ({ cmd: "bash", args: [path] }),
  node: (path: string) => ({
    cmd: "node",
    args: ["-e", `require("node:child_process").spawn("bash", ["${path}"], { stdio: "inherit" })`],
  }),
};

export async function launchBare(session: Session, script: string, program: keyof typeof programs = "bash") {
  const path = "/tmp/bench.sh";
  await session.writeFiles([{ path, content: script }]);
  return await session.runCommand({ ...programs[program](path), detached: true });
}

export async function firstOutput(command: BareCommand): Promise<void> {
  using logs = command.logs();
  for await (const _ of logs) return;
  throw new Error("the command ended without a word");
}

/** Reads the log stream to its end. */
export async function outputBytes(command: BareCommand): Promise<number> {
  let bytes = 0;
  for await (const { data } of command.logs()) bytes += Buffer.byteLength(data);
  return bytes;
}
