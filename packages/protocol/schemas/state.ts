import * as z from "zod/mini";
import { activities } from "../messages.ts";

/** The part of the state file that the control plane reads. The agent can write this file, too. */
export const stateFileSchema = z.object({
  /** When it was written. Runners of earlier versions leave it out. */
  at: z.optional(z.iso.datetime()),
  lastOutputAt: z.nullable(z.iso.datetime()),
  producedSeq: z.int(),
  ackedSeq: z.int(),
  activity: z.enum(activities),
});
