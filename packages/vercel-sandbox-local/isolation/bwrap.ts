import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { etcArguments } from "./etc.ts";
import { seccompFilter } from "./seccomp.ts";

const runtimeDir = "/vercel/runtimes/node24";
const initDir = "/run/sandbox-init";
const sharedMemoryBytes = 512 * 1024 * 1024;
/** Where a sandbox finds its gateway and certificates. */
export const networkDir = "/run/sandbox-network";

// Root on the host can write these without any capability. If the API runs as root, so can its sandboxes.
const kernelSettings = ["sys", "sysrq-trigger", "mtrr"];

// bwrap starts the setup as root of the namespace. CAP_NET_ADMIN is for the route, CAP_SYS_RESOURCE for the number of
// user namespaces, CAP_SETFCAP to map that root to an ordinary user in the namespace that init and all commands run in.
// Nobody has a capability there.
const setupCapabilities = ["--cap-drop", "ALL"].concat(
  ["CAP_NET_ADMIN", "CAP_SYS_RESOURCE", "CAP_SETFCAP"].flatMap((name) => ["--cap-add", name]),
);

export interface BwrapPaths {
  /** Contains the session's `vercel`, `home` and `tmp`. */
  root: string;
  /** The `/etc` of all sandboxes. */
  etc: string;
  /** The session's gateway and certificates. */
  network: string;
}

export interface ProcessLimits {
  /** Of the sandbox, with their threads. */
  processes: number;
  /** Of all processes of the sandbox together. */
  memoryBytes: number;
  /** For each process. The size of a core file is always 0. */
  openFiles: number;
  fileBytes: number;
  dataBytes?: number | undefined;
}

/** Whether bubblewrap is installed and can create the namespaces, the network included, with this filter. */
export function bwrapWorks(): boolean {
  const filter = seccompFilter();
  try {
    const flags = [...["--ro-bind", "/", "/"], ...namespaces(), "--dev", "/dev", ...procFs()];
    const setup = [
      "sh",
      path.join(import.meta.dirname, "init/setup.sh"),
      ...["1024", "1024", "unlimited", "unlimited"],
      "true",
    ];
    const seccomp = filter ? ["--seccomp", "0"] : [];
    execFileSync("bwrap", [...seccomp, ...flags, ...setup], {
      input: filter ?? "",
      stdio: ["pipe", "ignore", "ignore"],
    });
    return true;
  } catch {
    return false;
  }
}

/** bwrap's arguments for the namespace. It writes the pid of the first process to `infoFd`. */
export function namespaceArguments(
  { root, etc, network }: BwrapPaths,
  hostname: string,
  infoFd: number,
): string[] {
  return [
    ...namespaces(),
    ...["--unshare-ipc", "--unshare-uts", "--hostname", hostname],
    ...["--die-with-parent", "--new-session", "--info-fd", String(infoFd)],
    ...system(),
    ...etcArguments(etc),
    ...["--dev", "/dev", "--size", String(sharedMemoryBytes), "--tmpfs", "/dev/shm"],
    ...procFs(),
    ...["--bind", path.join(root, "tmp"), "/tmp", "--dir", "/var", "--symlink", "/tmp", "/var/tmp"],
    // No mount point may be inside a directory that persists and that the sandbox can write to. A symlink left in its
    // place would lead bwrap out of the new namespace at the next start.
    ...["--perms", "0755", "--dir", "/home", "--perms", "0755", "--dir", "/vercel"],
    ...["--bind", path.join(root, "home/vercel-sandbox"), "/home/vercel-sandbox"],
    ...["--bind", path.join(root, "vercel/sandbox"), "/vercel/sandbox"],
    ...nodeRuntime(),
    ...["--ro-bind", path.join(import.meta.dirname, "init"), initDir],
    ...["--ro-bind", network, networkDir],
    // What is not mounted is in memory, and nobody counts it.
    ...["--remount-ro", "/dev", "--remount-ro", "/"],
    ...["--chdir", "/vercel/sandbox"],
  ];
}

/** The command that bwrap runs in the namespace. */
export function initCommand({ processes, openFiles, dataBytes, fileBytes }: ProcessLimits): string[] {
  const dataKb = dataBytes === undefined ? "unlimited" : String(Math.floor(dataBytes / 1024));
  const fileBlocks = String(Math.ceil(fileBytes / 512));
  return [
    ...["sh", `${initDir}/setup.sh`, String(processes), String(openFiles), dataKb, fileBlocks],
    ...[`${runtimeDir}/bin/node`, "--max-semi-space-size=1", `${initDir}/init.mjs`],
  ];
}

function namespaces(): string[] {
  return [
    ...["--unshare-user", "--uid", "0", "--gid", "0", "--unshare-pid", "--unshare-net"],
    ...setupCapabilities,
  ];
}

// The settings of the sandbox's own network namespace stay writable for the setup.
function procFs(): string[] {
  return [
    ...["--proc", "/proc"],
    ...kernelSettings.flatMap((name) => ["--ro-bind-try", `/proc/${name}`, `/proc/${name}`]),
    ...["--bind", "/proc/sys/net", "/proc/sys/net"],
    ...["--bind", "/proc/sys/user", "/proc/sys/user"],
  ];
}

function system(): string[] {
  const links = ["bin", "sbin", "lib", "lib32", "lib64"].filter((name) => existsSync(`/${name}`));
  return [
    ...["--ro-bind", "/usr", "/usr"],
    ...links.flatMap((name) => ["--symlink", `usr/${name}`, `/${name}`]),
  ];
}

// The sandbox's node24 is the Node that runs the API, with its npm if it has one.
function nodeRuntime(): string[] {
  const prefix = path.dirname(path.dirname(process.execPath));
  if (existsSync(path.join(prefix, "lib/node_modules/npm"))) return ["--ro-bind", prefix, runtimeDir];
  return ["--ro-bind", process.execPath, path.posix.join(runtimeDir, "bin/node")];
}
