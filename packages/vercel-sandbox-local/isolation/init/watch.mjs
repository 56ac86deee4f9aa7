// Limits that the kernel does not enforce without cgroups: the memory of all processes of a sandbox, and their number if
// the API runs as root, whose processes RLIMIT_NPROC does not count.
import { readdirSync, readFileSync } from "node:fs";

const pageBytes = 4_096;
const tickMs = 500;
const busyTickMs = 50;
// bwrap and init.
const ownProcesses = 2;

/** `report` tells the running commands why their processes were killed. */
export function watch({ maxProcesses, maxMemoryBytes, report }) {
  const ownPid = String(process.pid);
  tick();

  function tick() {
    setTimeout(tick, check() ? busyTickMs : tickMs).unref();
  }

  /** Whether something was killed. */
  function check() {
    const pids = readdirSync("/proc").filter((name) => name !== "1" && name !== ownPid && /^\d+$/.test(name));
    if (pids.length === 0) return false;
    if (pids.length + ownProcesses > maxProcesses || threadsOf(pids) > maxProcesses) {
      report(`The sandbox had more than ${maxProcesses} processes and threads. All are killed.`);
      // One call for all: none of them can fork in between.
      signal(-1);
      return true;
    }
    const memory = pids.map((pid) => ({ pid, bytes: memoryOf(pid) }));
    const total = memory.reduce((sum, { bytes }) => sum + bytes, 0);
    if (total <= maxMemoryBytes) return false;
    const largest = memory.reduce((most, one) => (one.bytes > most.bytes ? one : most));
    report(
      `The sandbox used more than ${Math.round(maxMemoryBytes / 2 ** 20)} MB. Process ${largest.pid} is killed.`,
    );
    signal(Number(largest.pid));
    return true;
  }
}

function threadsOf(pids) {
  return pids.reduce((sum, pid) => sum + fieldOf(pid, "stat", afterName, 17), 0);
}

/** Resident memory without shared pages. */
function memoryOf(pid) {
  const [resident, shared] = [1, 2].map((index) => fieldOf(pid, "statm", (text) => text, index));
  return Math.max(0, resident - shared) * pageBytes;
}

/** A name can contain spaces and parentheses. */
function afterName(text) {
  return text.slice(text.lastIndexOf(")") + 2);
}

function fieldOf(pid, file, select, index) {
  try {
    return Number(select(readFileSync(`/proc/${pid}/${file}`, "latin1")).split(" ")[index]) || 0;
  } catch {
    // It has ended.
    return 0;
  }
}

function signal(pid) {
  try {
    process.kill(pid, "SIGKILL");
  } catch {}
}
