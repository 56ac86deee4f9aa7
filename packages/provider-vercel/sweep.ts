import type { SweepResult } from "@concierge/core";
import { exitCodes } from "./shell/scripts.ts";

/** What the exit code of a sweep means. Any other code is no result: the sweep was killed or never ran. */
export const sweepResults: ReadonlyMap<number, SweepResult> = new Map([
  [exitCodes.clean, "clean"],
  [exitCodes.alive, "alive"],
  [exitCodes.superseded, "superseded"],
]);

/** Whether a launch ended because another launch of the turn, or a sweep, came first. It started nothing. */
export function isBarred(exitCode: number | null | undefined): boolean {
  return exitCode === exitCodes.barred;
}

/** The launch's start time, from its output. */
export function readLaunchTime(output: string): string | undefined {
  return /^(\d+)\n/.exec(output)?.[1];
}
