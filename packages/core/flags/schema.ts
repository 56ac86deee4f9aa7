import * as z from "zod/mini";

/** The mechanisms that can be switched without a deploy, named after the variables with their start values. */
export const flagNames = [
  "ENABLE_DB_BACKED_STOP",
  "ENABLE_CANCELLATION_CHECKS",
  "ENABLE_HEALTH_PROBE",
  "ENABLE_INACTIVITY_TIMEOUT",
  "ENABLE_AUTHORITATIVE_TIMEOUT",
] as const;

export type FlagName = (typeof flagNames)[number];

/** As stored and shown: on, off, or a percentage of users. */
export const flagValueSchema = z.string().check(z.regex(/^(on|off|(100|[1-9]?\d)%)$/));

const share = /^(true|false|on|off|(100|[1-9]?\d)%)$/;
const what = { error: "takes true, false or a percentage such as 10%" };

/** As given in a variable. */
export const flagVariableSchema = z.lazy(() =>
  z.pipe(z.string().check(z.regex(share, what)), z.transform<string, string>(toValue)),
);

/** As given in a request. */
const flagRequestSchema = z.lazy(() =>
  z.pipe(z.union([z.boolean(), z.string().check(z.regex(share))], what), z.transform(toValue)),
);

export const allFlagsSchema = z
  .lazy(() => z.strictObject(each(flagValueSchema)))
  .register(z.globalRegistry, { id: "Flags" });

export const flagsRequestSchema = z
  .lazy(() => z.partial(z.strictObject(each(flagRequestSchema))))
  .register(z.globalRegistry, { id: "FlagsRequest" });

export type AllFlags = z.infer<typeof allFlagsSchema>;
export type Flags = z.infer<typeof flagsRequestSchema>;

function toValue(said: boolean | string): string {
  const word = String(said);
  if (word === "true") return "on";
  return word === "false" ? "off" : word;
}

function each<T extends z.ZodMiniType>(schema: T) {
  return {
    ENABLE_DB_BACKED_STOP: schema,
    ENABLE_CANCELLATION_CHECKS: schema,
    ENABLE_HEALTH_PROBE: schema,
    ENABLE_INACTIVITY_TIMEOUT: schema,
    ENABLE_AUTHORITATIVE_TIMEOUT: schema,
  };
}
