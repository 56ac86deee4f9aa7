import { ApiError } from "../http/errors.ts";
import type { Machine } from "../isolation/machine.ts";
import { defaultEnvironment } from "./commands.ts";
import { unpack } from "./files.ts";
import { newId, sandboxCwd } from "./records.ts";
import type { RunningSession, World } from "./world.ts";

export type Source =
  | {
      type: "git";
      url: string;
      username?: string | undefined;
      password?: string | undefined;
      depth?: number | undefined;
      revision?: string | undefined;
    }
  | { type: "tarball"; url: string }
  | { type: "snapshot"; snapshotId: string };

type FetchedSource = Exclude<Source, { type: "snapshot" }>;
type GitSource = Extract<Source, { type: "git" }>;

const errorTailChars = 1_000;
const commitPattern = /^[0-9a-f]{7,40}$/;
const fullCommitChars = 40;

// The credential is only in the environment of the clone. In the URL or the arguments it would stay in .git/config or
// be visible to other processes.
const credentialHelper = '!f() { echo "username=$CLONE_USERNAME"; echo "password=$CLONE_PASSWORD"; }; f';

/** Fills the working directory of a new sandbox. */
export async function installSource(world: World, { machine }: RunningSession, source: FetchedSource) {
  switch (source.type) {
    case "git":
      return clone(world, machine, source);
    case "tarball":
      return download(world, machine, source.url);
  }
}

async function clone(world: World, machine: Machine, source: GitSource): Promise<void> {
  const url = webUrl(source.url);
  const username = source.username ?? decodeURIComponent(url.username);
  const password = source.password ?? decodeURIComponent(url.password);
  url.username = "";
  url.password = "";
  const env: Record<string, string> = {
    ...defaultEnvironment(world),
    GIT_TERMINAL_PROMPT: "0",
    ...(password && {
      CLONE_USERNAME: username,
      CLONE_PASSWORD: password,
      GIT_CONFIG_COUNT: "1",
      GIT_CONFIG_KEY_0: "credential.helper",
      GIT_CONFIG_VALUE_0: credentialHelper,
    }),
  };
  for (const args of cloneSteps(url.href, source)) {
    const { code, errors } = await git(machine, args, env);
    if (code !== 0)
      throw new ApiError("git_clone_failed", `Could not clone the repository: ${errors.trim()}`);
  }
}

function cloneSteps(url: string, { depth, revision }: GitSource): string[][] {
  const shallow = depth === undefined ? [] : ["--depth", String(depth)];
  if (revision === undefined) return [["clone", ...shallow, "--", url, "."]];
  if (!commitPattern.test(revision)) return [["clone", ...shallow, "--branch", revision, "--", url, "."]];
  // A server sends a single commit only for a full hash. A short one needs the history.
  if (depth === undefined || revision.length < fullCommitChars) {
    return [
      ["clone", "--no-checkout", "--", url, "."],
      ["checkout", revision],
    ];
  }
  return [
    ["init", "--quiet"],
    ["remote", "add", "origin", url],
    ["fetch", ...shallow, "origin", revision],
    ["checkout", "--detach", "FETCH_HEAD"],
  ];
}

async function git(machine: Machine, args: string[], env: Record<string, string>) {
  const exit = Promise.withResolvers<number>();
  let errors = "";
  void machine.exited.then(() => exit.resolve(1));
  await machine.spawn(
    { command: newId("command"), cmd: "git", args, cwd: sandboxCwd, env },
    {
      onOutput(stream, bytes) {
        if (stream === "stderr") errors = (errors + bytes.toString("utf8")).slice(-errorTailChars);
      },
      onExit: exit.resolve,
    },
  );
  return { code: await exit.promise, errors };
}

async function download(world: World, machine: Machine, address: string): Promise<void> {
  const response = await fetch(webUrl(address)).catch((error: unknown) => {
    throw new ApiError("bad_request", `Could not download the tarball: ${String(error)}`);
  });
  if (!response.ok || !response.body) {
    throw new ApiError("bad_request", `Could not download the tarball: status ${response.status}`);
  }
  await unpack(world, machine, response.body, sandboxCwd);
}

function webUrl(address: string): URL {
  const url = URL.parse(address);
  // Other git transports can run programs and read local files.
  if (url?.protocol === "https:" || url?.protocol === "http:") return url;
  throw new ApiError("bad_request", "A source must have an http or https URL.");
}
