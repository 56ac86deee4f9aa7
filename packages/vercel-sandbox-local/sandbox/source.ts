import { ApiError } from "../http/errors.ts";
import type { Machine } from "../isolation/machine.ts";
import { BASE_ENVIRONMENT } from "./commands.ts";
import { unpack } from "./files.ts";
import { newId, SANDBOX_CWD } from "./records.ts";
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

const ERROR_TAIL_CHARS = 1_000;
const COMMIT = /^[0-9a-f]{7,40}$/;
const FULL_COMMIT_CHARS = 40;

// The credential is in the environment of the clone alone: not in its arguments, not in the URL, and so not in
// the .git/config that stays behind.
const CREDENTIAL_HELPER = '!f() { echo "username=$CLONE_USERNAME"; echo "password=$CLONE_PASSWORD"; }; f';

/** Fills a new sandbox's working directory. */
export async function installSource(world: World, { machine }: RunningSession, source: FetchedSource) {
  switch (source.type) {
    case "git":
      return clone(machine, source);
    case "tarball":
      return download(world, machine, source.url);
  }
}

async function clone(machine: Machine, source: GitSource): Promise<void> {
  const url = webUrl(source.url);
  const username = source.username ?? decodeURIComponent(url.username);
  const password = source.password ?? decodeURIComponent(url.password);
  url.username = "";
  url.password = "";
  const env: Record<string, string> = {
    ...BASE_ENVIRONMENT,
    GIT_TERMINAL_PROMPT: "0",
    ...(password && {
      CLONE_USERNAME: username,
      CLONE_PASSWORD: password,
      GIT_CONFIG_COUNT: "1",
      GIT_CONFIG_KEY_0: "credential.helper",
      GIT_CONFIG_VALUE_0: CREDENTIAL_HELPER,
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
  if (!COMMIT.test(revision)) return [["clone", ...shallow, "--branch", revision, "--", url, "."]];
  // A server gives out a single commit only by its full name; a short one needs the history to be found in.
  if (depth === undefined || revision.length < FULL_COMMIT_CHARS) {
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
    { command: newId("command"), cmd: "git", args, cwd: SANDBOX_CWD, env },
    {
      onOutput(stream, bytes) {
        if (stream === "stderr") errors = (errors + bytes.toString("utf8")).slice(-ERROR_TAIL_CHARS);
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
  await unpack(world, machine, response.body, SANDBOX_CWD);
}

function webUrl(address: string): URL {
  const url = URL.parse(address);
  // Git has transports that run programs and read local files.
  if (url?.protocol === "https:" || url?.protocol === "http:") return url;
  throw new ApiError("bad_request", "A source must have an http or https URL.");
}
