import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { etcArguments } from "./etc.ts";

const RUNTIME_DIR = "/vercel/runtimes/node24";
const INIT_DIR = "/run/sandbox-init";
const USER_ID = "1000";

// The kernel lets the host's root write these without any capability, and an API that runs as root is that root
// inside too.
const KERNEL_SETTINGS = ["sys", "sysrq-trigger", "mtrr"];

/** Whether bubblewrap is here and may make namespaces. */
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
  /** Holds `vercel`, `home` and `tmp` of the session. */
  root: string;
  /** What every sandbox has for `/etc`. */
  etc: string;
}

/** Sets up the namespace. `infoFd` is told the pid of its first process. */
export function namespaceArguments({ root, etc }: BwrapPaths, hostname: string, infoFd: number): string[] {
  return [
    ...["--unshare-user", "--uid", USER_ID, "--gid", USER_ID],
    ...["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--hostname", hostname],
    ...["--die-with-parent", "--new-session", "--info-fd", String(infoFd)],
    ...system(),
    ...etcArguments(etc),
    ...["--dev", "/dev", "--tmpfs", "/dev/shm", "--proc", "/proc"],
    ...KERNEL_SETTINGS.flatMap((name) => ["--ro-bind-try", `/proc/${name}`, `/proc/${name}`]),
    ...["--bind", path.join(root, "tmp"), "/tmp", "--dir", "/var", "--symlink", "/tmp", "/var/tmp"],
    // No mount point lies in a directory that a sandbox can write to and keep: a link it left in the place of one
    // would lead bwrap, at the next start, out of the namespace it is making.
    ...["--perms", "0755", "--dir", "/home", "--perms", "0755", "--dir", "/vercel"],
    ...["--bind", path.join(root, "home/vercel-sandbox"), "/home/vercel-sandbox"],
    ...["--bind", path.join(root, "vercel/sandbox"), "/vercel/sandbox"],
    ...nodeRuntime(),
    ...["--ro-bind", path.join(import.meta.dirname, "init"), INIT_DIR],
    ...["--chdir", "/vercel/sandbox"],
  ];
}

/** What bwrap is to run in it. */
export const INIT_COMMAND = [`${RUNTIME_DIR}/bin/node`, "--max-semi-space-size=1", `${INIT_DIR}/init.mjs`];

function system(): string[] {
  const links = ["bin", "sbin", "lib", "lib32", "lib64"].filter((name) => existsSync(`/${name}`));
  return [
    ...["--ro-bind", "/usr", "/usr"],
    ...links.flatMap((name) => ["--symlink", `usr/${name}`, `/${name}`]),
  ];
}

// The Node that runs the API is the sandbox's node24. Its npm comes along when it has one of its own.
function nodeRuntime(): string[] {
  const prefix = path.dirname(path.dirname(process.execPath));
  if (existsSync(path.join(prefix, "lib/node_modules/npm"))) return ["--ro-bind", prefix, RUNTIME_DIR];
  return ["--ro-bind", process.execPath, path.posix.join(RUNTIME_DIR, "bin/node")];
}
