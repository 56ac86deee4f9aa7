import * as z from "zod/mini";

/** The five mechanisms that can be switched without a deploy, by the name of the variable with their start value. */
export const flagNames = [
  "ENABLE_DB_BACKED_STOP",
  "ENABLE_CANCELLATION_CHECKS",
  "ENABLE_HEALTH_PROBE",
  "ENABLE_INACTIVITY_TIMEOUT",
  "ENABLE_AUTHORITATIVE_TIMEOUT",
] as const;

export type FlagName = (typeof flagNames)[number];

/** For everyone, for nobody, or for a share of the users: as it is kept and shown. */
export const flagValueSchema = z.string().check(z.regex(/^(on|off|(100|[1-9]?\d)%)$/));

const share = /^(true|false|on|off|(100|[1-9]?\d)%)$/;
const what = { error: "takes true, false or a percentage such as 10%" };

/** As a variable says it. */
export const flagVariableSchema = z.lazy(() =>
  z.pipe(z.string().check(z.regex(share, what)), z.transform<string, string>(toValue)),
);

/** As a request may say it. */
const flagRequestSchema = z.lazy(() =>
  z.pipe(z.union([z.boolean(), z.string().check(z.regex(share))], what), z.transform(toValue)),
);

/** Every flag, each with a value. */
export const allFlagsSchema = z
  .lazy(() => z.strictObject(each(flagValueSchema)))
  .register(z.globalRegistry, { id: "Flags" });

/** A change of some. */
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
