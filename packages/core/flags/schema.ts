import { z } from "zod";

/** The five mechanisms that can be switched without a deploy, by the name of the variable with their start value. */
export const flagNames = [
  "ENABLE_DB_BACKED_STOP",
  "ENABLE_CANCELLATION_CHECKS",
  "ENABLE_HEALTH_PROBE",
  "ENABLE_INACTIVITY_TIMEOUT",
  "ENABLE_AUTHORITATIVE_TIMEOUT",
] as const;

export type FlagName = (typeof flagNames)[number];

const what = { error: "takes true, false or a percentage such as 10%" };

/** For everyone, for nobody, or for a share of the users. */
export const flagValueSchema = z.string().regex(/^(true|false|(100|[1-9]?\d)%)$/, what);

/** Every flag, each with a value. */
export const allFlagsSchema = z.strictObject({
  ENABLE_DB_BACKED_STOP: flagValueSchema,
  ENABLE_CANCELLATION_CHECKS: flagValueSchema,
  ENABLE_HEALTH_PROBE: flagValueSchema,
  ENABLE_INACTIVITY_TIMEOUT: flagValueSchema,
  ENABLE_AUTHORITATIVE_TIMEOUT: flagValueSchema,
});

/** A change of some. */
export const flagsSchema = allFlagsSchema.partial();

export type AllFlags = z.infer<typeof allFlagsSchema>;
export type Flags = z.infer<typeof flagsSchema>;
