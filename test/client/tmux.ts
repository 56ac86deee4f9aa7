import { execFile, execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** Whether tmux is here. If not, says so, and fails in CI. */
export function hasTmux(suite: string): boolean {
  try {
    execFileSync("tmux", ["-V"], { stdio: "ignore" });
    return true;
  } catch {
    const line = `TMUX IS MISSING (apt install tmux): NOT RUN is ${suite}`;
    if (process.env.CI) throw new Error(line);
    console.error(line);
    return false;
  }
}

/** A command in a real terminal, with its own tmux server. Its exit code is shown as `[exit N]`. */
export async function openTerminal(command: string[], env: Record<string, string>) {
  const socket = join(tmpdir(), `concierge-tmux-${randomUUID()}`);
  const tmux = async (...args: string[]) =>
    (await run("tmux", ["-S", socket, "-f", "/dev/null", ...args])).stdout;
  const variables = Object.entries(env).flatMap(([name, value]) => ["-e", `${name}=${value}`]);
  const quoted = command.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(" ");
  // Ctrl-C reaches the whole foreground group. An interactive shell would survive it too.
  const script = `trap : INT; ${quoted}; echo "[exit $?]"; exec sleep 1000`;
  // UTF-8, or tmux replaces what is not ASCII.
  await tmux("-u", "new-session", "-d", "-x", "110", "-y", "40", ...variables, "sh", "-c", script);
  return {
    /** What is on the screen, without trailing spaces. */
    screen: async () => (await tmux("capture-pane", "-p")).trimEnd(),
    /** The same with its colours. */
    colours: async () => await tmux("capture-pane", "-p", "-e"),
    title: async () => (await tmux("display-message", "-p", "#{pane_title}")).trim(),
    resize: async (columns: number, rows: number) =>
      void (await tmux("resize-window", "-x", String(columns), "-y", String(rows))),
    press: async (...keys: string[]) => void (await tmux("send-keys", ...keys)),
    [Symbol.asyncDispose]: async () => {
      await tmux("kill-server").catch(() => {});
      await rm(socket, { force: true });
    },
  };
}
