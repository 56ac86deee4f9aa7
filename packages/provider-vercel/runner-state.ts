import type { RunnerState } from "@concierge/core";
import { stateFileSchema } from "@concierge/protocol/schemas";

/** The agent can overwrite the runner's state file. Text that does not parse counts as no state. */
export function readRunnerState(text: string): RunnerState | undefined {
  const parsed = stateFileSchema.safeParse(parseJson(text));
  if (!parsed.success) return undefined;
  const { at, lastOutputAt, producedSeq, ackedSeq, activity } = parsed.data;
  return {
    at: at === undefined ? undefined : Date.parse(at),
    lastOutputAt: lastOutputAt === null ? undefined : Date.parse(lastOutputAt),
    undelivered: producedSeq > ackedSeq,
    activity,
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
