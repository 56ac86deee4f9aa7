import * as z from "zod";
import { envMaxBytes, envMaxNames, metadataMaxKeys, promptMaxBytes } from "../limits.ts";
import { agents, type Limits } from "./schema.ts";

const day = 24 * 60 * 60 * 1000;

export const sessionKeySchema = z
  .string()
  .regex(/^[A-Za-z0-9._-]{1,64}$/, { error: "must be 1 to 64 of A-Z, a-z, 0-9, dot, underscore and dash" });

export const promptSchema = z.lazy(() =>
  z
    .string()
    .min(1)
    .refine((text) => Buffer.byteLength(text) <= promptMaxBytes, {
      error: `must be ${promptMaxBytes} bytes at the most`,
    }),
);

export const requestLimitsSchema = z.lazy(() =>
  z
    .strictObject({
      maxDurationMs: z.int().min(1000).max(day),
      inactivityMs: z.int().min(1000).max(day),
      maxCostUsd: z.number().positive().max(10_000),
    })
    .partial(),
);

/** The limits a turn has: what is asked for, over what it would have. */
export function limitsFrom(
  asked: z.infer<typeof requestLimitsSchema> | undefined,
  otherwise: Limits,
): Limits {
  const given = Object.entries(asked ?? {}).filter(([, value]) => value !== undefined);
  return { ...otherwise, ...Object.fromEntries(given) };
}

const envSchema = z.lazy(() =>
  z
    .record(
      z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, { error: "must be a variable's name" }),
      z.string(),
    )
    .refine((env) => Object.keys(env).length <= envMaxNames, {
      error: `must have ${envMaxNames} names at the most`,
    })
    .refine((env) => Buffer.byteLength(JSON.stringify(env)) <= envMaxBytes, {
      error: `must be ${envMaxBytes} bytes at the most`,
    })
    .refine((env) => !Object.keys(env).some((name) => name.startsWith("CONCIERGE_")), {
      error: "must not have names that begin with CONCIERGE_",
    }),
);

const metadataSchema = z.lazy(() =>
  z
    .record(z.string().min(1).max(64), z.string().max(512))
    .refine((data) => Object.keys(data).length <= metadataMaxKeys, {
      error: `must have ${metadataMaxKeys} keys at the most`,
    }),
);

/** What git takes for a branch, less what nobody needs. */
const branchSchema = z.lazy(() =>
  z.string().regex(/^(?![-/.])(?!.*(?:\.\.|\/\/|@\{|\.lock(?:\/|$)))[A-Za-z0-9._/@+-]{1,200}(?<![/.])$/, {
    error: "must be a branch's name",
  }),
);

const credentialSchema = {
  username: z.string().regex(/^[\x21-\x7e]{1,128}$/, { error: "must be 1 to 128 printable characters" }),
  token: z.string().regex(/^[\x21-\x7e]{1,1024}$/, { error: "must be 1 to 1024 printable characters" }),
};

const repoRequestSchema = z.lazy(() =>
  z.strictObject({
    url: z
      .url({ protocol: /^https?$/, error: "must be an https URL" })
      .max(1024)
      .refine((text) => !/^[a-z]+:\/\/[^/]*@/i.test(text), {
        error: "must not have a credential in it: send username and token",
      }),
    baseBranch: branchSchema.optional(),
    branch: branchSchema.optional(),
    push: z.boolean().optional(),
    username: credentialSchema.username.optional(),
    token: credentialSchema.token.optional(),
  }),
);

const hostSchema = z.lazy(() =>
  z
    .string()
    .max(253)
    .regex(/^(\*|(\*\.)?[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*)$/, { error: "must be a host's name, or *" }),
);

export const startRequestSchema = z
  .lazy(() =>
    z.strictObject({
      prompt: promptSchema,
      agent: z.enum(agents).optional(),
      sessionKey: sessionKeySchema.optional(),
      repo: repoRequestSchema.optional(),
      keepAlive: z.boolean().optional(),
      limits: requestLimitsSchema.optional(),
      env: envSchema.optional(),
      webhook: z
        .strictObject({ url: z.url({ protocol: /^https?$/, error: "must be an https URL" }).max(2048) })
        .optional(),
      network: z.strictObject({ allow: z.array(hostSchema).max(50) }).optional(),
      metadata: metadataSchema.optional(),
    }),
  )
  .meta({ id: "StartRequest" });

export type StartRequest = z.infer<typeof startRequestSchema>;

/** The next turn. Secrets are gone with the turn they came with: this one's come with it. */
export const continueRequestSchema = z
  .lazy(() =>
    z.strictObject({
      prompt: promptSchema,
      limits: requestLimitsSchema.optional(),
      env: envSchema.optional(),
      repo: z.strictObject(credentialSchema).optional(),
    }),
  )
  .meta({ id: "ContinueRequest" });

export type ContinueRequest = z.infer<typeof continueRequestSchema>;
