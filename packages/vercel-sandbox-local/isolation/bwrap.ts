import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { etcArguments } from "./etc.ts";

const runtimeDir = "/vercel/runtimes/node24";
const initDir = "/run/sandbox-init";
const userId = "1000";

// Root on the host can write these without any capability. If the API runs as root, so can its sandboxes.
const kernelSettings = ["sys", "sysrq-trigger", "mtrr"];

/** Whether bubblewrap is installed and can create namespaces. */
export function bwrapWorks(): boolean {
  try {
    const flags = ["--ro-bind", "/", "/", "--unshare-user", "--unshare-pid", "--proc", "/proc"];
    execFileSync("bwrap", [...flags, "true"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

export interface BwrapPaths {
  /** Contains the session's `vercel`, `home` and `tmp`. */
  root: string;
  /** The `/etc` of all sandboxes. */
  etc: string;
}

/** bwrap's arguments for the namespace. It writes the pid of the first process to `infoFd`. */
export function namespaceArguments({ root, etc }: BwrapPaths, hostname: string, infoFd: number): string[] {
  return [
    ...["--unshare-user", "--uid", userId, "--gid", userId],
    ...["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--hostname", hostname],
    ...["--die-with-parent", "--new-session", "--info-fd", String(infoFd)],
    ...system(),
    ...etcArguments(etc),
    ...["--dev", "/dev", "--tmpfs", "/dev/shm", "--proc", "/proc"],
    ...kernelSettings.flatMap((name) => ["--ro-bind-try", `/proc/${name}`, `/proc/${name}`]),
    ...["--bind", path.join(root, "tmp"), "/tmp", "--dir", "/var", "--symlink", "/tmp", "/var/tmp"],
    // No mount point may be inside a directory that persists and that the sandbox can write to. A symlink left in its
    // place would lead bwrap out of the new namespace at the next start.
    ...["--perms", "0755", "--dir", "/home", "--perms", "0755", "--dir", "/vercel"],
    ...["--bind", path.join(root, "home/vercel-sandbox"), "/home/vercel-sandbox"],
    ...["--bind", path.join(root, "vercel/sandbox"), "/vercel/sandbox"],
    ...nodeRuntime(),
    ...["--ro-bind", path.join(import.meta.dirname, "init"), initDir],
    ...["--chdir", "/vercel/sandbox"],
  ];
}

/** The command that bwrap runs in the namespace. */
export const initCommand = [`${runtimeDir}/bin/node`, "--max-semi-space-size=1", `${initDir}/init.mjs`];

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
