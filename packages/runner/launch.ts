import { LAUNCHER_VARIABLE } from "./config.ts";
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

/** Of what the launch began with: nothing that is older is the turn's. */
function startTicks(): number | null {
  const { [LAUNCHER_VARIABLE]: launcher = process.pid } = process.env;
  try {
    return readStat(`/proc/${launcher}`).startTicks;
  } catch {
    return null;
  }
}
