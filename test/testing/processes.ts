/** The machine's processes, as the kernel shows them. */
import { readdirSync, readFileSync } from "node:fs";

/** The live processes whose command line or environment contains the text, one line each. */
export function alive(text: string, where: "cmdline" | "environ" = "cmdline"): string[] {
  return numbersIn("/proc").flatMap((pid) => {
    const thread = numbersIn(`/proc/${pid}/task`)
      .map((number) => `/proc/${pid}/task/${number}`)
      .find((path) => isRunning(path) && read(`${path}/${where}`).includes(text));
    return thread ? [`${pid} ${read(`${thread}/cmdline`)}`] : [];
  });
}

/**
 * A background command that ignores SIGTERM and whose first thread has ended: the kernel shows a zombie without command
 * line and environment, but another thread goes on. The mark is among its arguments.
 */
export function headless(mark: number | string): string {
  const goesOn = "$SIG{TERM} = q(IGNORE); threads->create(sub { sleep 1 while 1 });";
  // Ends only the thread: `exit` would end them all.
  const ends = "syscall($Config{archname} =~ /aarch64/ ? 93 : 60, 0);";
  return `setsid perl -Mthreads -MConfig -e '${goesOn} ${ends}' ${mark} </dev/null >/dev/null 2>&1 &`;
}

/** A background command that forks and exits again and again: it is always there, but no process of it lives long. */
export function hopping(mark: number | string): string {
  return `setsid perl -e '$SIG{CHLD} = q(IGNORE); while (1) { fork and exit }' ${mark} </dev/null >/dev/null 2>&1 &`;
}

/** Checks each thread's state: a process shows only that of its first thread. */
function isRunning(path: string): boolean {
  const state = /\) (\S)/.exec(read(`${path}/stat`))?.[1];
  return state !== undefined && state !== "Z" && state !== "X";
}

function numbersIn(directory: string): string[] {
  try {
    return readdirSync(directory).filter((name) => /^\d+$/.test(name));
  } catch {
    return [];
  }
}

/** Empty if the process ended meanwhile. */
function read(file: string): string {
  try {
    return readFileSync(file, "latin1").replaceAll("\0", " ");
  } catch {
    return "";
  }
}
