import { readStat } from "./processes.ts";
import { type LaunchRecord, RUN_FILES } from "./protocol.ts";

const { writeFileSync } = process.getBuiltinModule("node:fs");
const { join } = process.getBuiltinModule("node:path");

/** True for exactly one of all launches of a turn: a launch that was tried again must not start a second agent. */
export function claimLaunch(runDir: string): boolean {
  const record: LaunchRecord = { pid: process.pid, startTicks: startTicks(), at: new Date().toISOString() };
  try {
    writeFileSync(join(runDir, RUN_FILES.launched), `${JSON.stringify(record)}\n`, {
      flag: "wx",
      mode: 0o600,
    });
    return true;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EEXIST") return false;
    throw error;
  }
}

function startTicks(): number | null {
  try {
    return readStat(process.pid).startTicks;
  } catch {
    return null;
  }
}
