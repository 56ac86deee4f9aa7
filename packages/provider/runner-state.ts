import type { RunnerState } from "@concierge/core";
import * as z from "zod/mini";

const schema = z.object({
  at: z.optional(z.iso.datetime()),
  lastOutputAt: z.nullable(z.iso.datetime()),
  producedSeq: z.int(),
  ackedSeq: z.int(),
  activity: z.enum(["none", "model", "tool"]),
});

/** What the runner wrote of itself. The agent could have written it too: what does not parse says nothing. */
export function readRunnerState(text: string): RunnerState | undefined {
  const parsed = schema.safeParse(parseJson(text));
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
