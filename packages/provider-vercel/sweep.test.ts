import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { hopping } from "../../test/testing/processes.ts";
import { exitCodes, launchScript, sweepScript } from "./shell/scripts.ts";

let runDir: string;
beforeEach(() => {
  runDir = join(mkdtempSync(join(tmpdir(), "concierge-sweep-")), "task_1-1");
  mkdirSync(runDir);
});
afterEach(() => rmSync(dirname(runDir), { recursive: true, force: true }));

const inNamespace = ["-Urpfm", "--mount-proc", "--kill-child", "bash", "-c"];
const helpers = `
  # The clock that start times are in: hundredths of a second since the machine started.
  ticks() { read -r up _ < /proc/uptime; echo $((10#\${up/./})); }
  sweep() { sh -c "$SWEEP" sh "$RUN_DIR" "$@"; }
  is_alive() { kill -0 "$1" 2>/dev/null && echo alive || echo dead; }
`;

/** Runs a script as the first process of its own process namespace and returns the words it prints. */
function run(script: string): string[] {
  const env = { ...process.env, SWEEP: sweepScript, LAUNCH: launchScript, RUN_DIR: runDir };
  const { stdout } = spawnSync("unshare", [...inNamespace, helpers + script], { encoding: "utf8", env });
  return stdout.split(/\s+/).filter(Boolean);
}

describe("a sweep", () => {
  it("kills what started with the launch or later, and spares what is older", () => {
    const [code, ...processes] = run(`
      sleep 1000 & older=$!
      sleep 0.1; since=$(ticks); sleep 0.1
      setsid env -i sleep 1000 & younger=$!
      sleep 0.1
      sweep $since; echo $?; wait $younger 2>/dev/null
      is_alive $older; is_alive $younger`);
    expect([Number(code), processes]).toEqual([exitCodes.clean, ["alive", "dead"]]);
  });

  it("kills only processes with the sandbox's mark if the provider sets one", () => {
    const [code, ...processes] = run(`
      since=$(ticks); sleep 0.1
      sleep 1000 & other=$!
      SANDBOX_PROCESS_MARK=ours sleep 1000 & own=$!
      sleep 0.1
      SANDBOX_PROCESS_MARK=ours sweep $since; echo $?; wait $own 2>/dev/null
      is_alive $other; is_alive $own`);
    expect([Number(code), processes]).toEqual([exitCodes.clean, ["alive", "dead"]]);
  });

  it("kills nothing if another turn has taken over the sandbox, unless told to", () => {
    writeFileSync(join(dirname(runDir), "current"), "task_2-1\n");
    const [first, process, second, after] = run(`
      since=$(ticks); sleep 0.1
      sleep 1000 & other=$!
      sleep 0.1
      sweep $since; echo $?; is_alive $other
      sweep $since yes; echo $?; wait $other 2>/dev/null; is_alive $other`);
    expect([Number(first), process]).toEqual([exitCodes.superseded, "alive"]);
    expect([Number(second), after]).toEqual([exitCodes.clean, "dead"]);
  });

  it("without a known launch is clean only if it bars the launch first", () => {
    expect(run("sweep ''; echo $?; sweep ''; echo $?").map(Number)).toEqual([
      exitCodes.clean,
      exitCodes.alive,
    ]);
  });

  it("is not clean while a process keeps forking and exiting", { timeout: 60_000 }, () => {
    const script = `
      # Taken before the process starts: on a busy machine it may run only later.
      since=$(ticks)
      ${hopping("mark")}
      sleep 0.1
      sweep $since
      echo $?
      for look in $(seq 300); do
        for path in /proc/[0-9]*; do
          read -r stat < $path/stat; set -- \${stat##*) }
          # A process without memory (field 23) runs nothing: it is exiting.
          case $stat in *"(perl)"*) [ "\${21}" != 0 ] && echo there && exit ;; esac
        done
      done 2>/dev/null`;
    for (let time = 0; time < 12; time++) {
      const [code, ...there] = run(script);
      expect([exitCodes.clean, exitCodes.alive]).toContain(Number(code));
      if (Number(code) === exitCodes.clean) expect(there).toEqual([]);
    }
  });

  it("is not clean where /proc is hidden", () => {
    expect(run("mount -t tmpfs none /proc; sweep 1; echo $?")).toEqual([String(exitCodes.alive)]);
  });
});

describe("a launch", () => {
  it("first prints its start time, then runs the command, and ends with its exit code", () => {
    const [since, said, code] = run(`sh -c "$LAUNCH" sh "$RUN_DIR" sh -c 'echo said; exit 7'; echo $?`);
    expect([said, code]).toEqual(["said", "7"]);
    expect(readFileSync(join(runDir, "launched"), "utf8")).toBe(`${since}\n`);
  });

  it("starts nothing if a sweep or another launch came first", () => {
    const [swept, ...codes] = run(`
      sweep ''; echo $?
      sh -c "$LAUNCH" sh "$RUN_DIR" touch "$RUN_DIR/started"; echo $?`);
    expect([swept, ...codes].map(Number)).toEqual([exitCodes.clean, exitCodes.barred]);
    expect(existsSync(join(runDir, "started"))).toBe(false);
  });

  it("kills what its command started when it gets SIGTERM, and reports the result", () => {
    const [code, process] = run(`
      sh -c "$LAUNCH" sh "$RUN_DIR" sh -c 'trap "" TERM; setsid sleep 1000 & echo $! > "$RUN_DIR/child"; wait' >/dev/null & launcher=$!
      until [ -s "$RUN_DIR/child" ]; do sleep 0.05; done
      kill -TERM $launcher; wait $launcher; echo $?
      is_alive $(cat "$RUN_DIR/child")`);
    expect([Number(code), process]).toEqual([exitCodes.clean, "dead"]);
  });
});
