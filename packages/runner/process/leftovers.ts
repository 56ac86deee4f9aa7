import { readdirSync, readFileSync } from "node:fs";
import {
  type LaunchConfig,
  type Leftover,
  leftoversMax,
  programNameMaxLength,
  variables,
} from "@concierge/protocol";
import { killTurn } from "./processes.ts";

/**
 * Finds what earlier turns left running in the sandbox and ends what the task wants ended. By default a task keeps its own
 * processes, such as a development server, and ends those of another task.
 */
export async function handleLeftovers(
  { taskId, turn, leftovers }: Pick<LaunchConfig, "taskId" | "turn" | "leftovers">,
  graceMs: number,
): Promise<Leftover[]> {
  const found = listLeftovers().filter((one) => one.taskId !== taskId || one.turn !== turn);
  const isEnded = (one: { taskId: string }) =>
    (leftovers ?? (one.taskId === taskId ? "keep" : "end")) === "end";
  const turns = new Map(found.filter(isEnded).map((one) => [`${one.taskId}/${one.turn}`, one]));
  const gone = new Map(
    await Promise.all(
      [...turns].map(async ([name, one]) => {
        return [name, await killTurn({ ...one, groupId: undefined }, graceMs)] as const;
      }),
    ),
  );
  return found
    .map((one) => ({ ...one, ended: gone.get(`${one.taskId}/${one.turn}`) ?? false }))
    .slice(0, leftoversMax);
}

function listLeftovers(): Omit<Leftover, "ended">[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .flatMap((name) => {
      try {
        return describe(Number(name));
      } catch {
        // It ended meanwhile, or belongs to another user.
        return [];
      }
    });
}

function describe(pid: number): Omit<Leftover, "ended">[] {
  const environment = readFileSync(`/proc/${pid}/environ`, "utf8").split("\0");
  const read = (name: string) =>
    environment.find((entry) => entry.startsWith(`${name}=`))?.slice(name.length + 1);
  const taskId = read(variables.taskId);
  const turn = Number(read(variables.turnNumber));
  if (read(variables.processMark) !== process.env[variables.processMark]) return [];
  if (taskId === undefined || !Number.isSafeInteger(turn) || turn < 1) return [];
  const program = readFileSync(`/proc/${pid}/comm`, "utf8").trim().slice(0, programNameMaxLength);
  return [{ pid, program, taskId: taskId.slice(0, programNameMaxLength), turn }];
}
