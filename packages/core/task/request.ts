import { leftoverPolicies } from "@concierge/protocol";
import * as z from "zod/mini";
import { AppError } from "../errors.ts";
import {
  envMaxBytes,
  envMaxNames,
  hostMaxLength,
  hostsMax,
  metadataKeyMaxLength,
  metadataMaxKeys,
  metadataValueMaxLength,
  promptMaxBytes,
  repoUrlMaxLength,
  webhookUrlMaxLength,
} from "../limits.ts";
import { agents, type Limits } from "./schema.ts";

const day = 24 * 60 * 60 * 1000;

/** A millionth of a dollar. The table cannot store numbers that are much smaller. */
const costMinUsd = 0.000001;

/** Not `.` or `..`, which mean something else in a path. */
export const sessionKeySchema = z.string().check(
  z.regex(/^(?!\.{1,2}$)[A-Za-z0-9._-]{1,64}$/, {
    error: "must be 1 to 64 of A-Z, a-z, 0-9, dot, underscore and dash, and not . or ..",
  }),
);

/** NUL cannot be part of an argument, a variable or a script. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: written so that every reader of the document understands it.
export const withoutNul = z.regex(/^[^\u0000]*$/, { error: "must not contain a NUL character" });

export const promptSchema = z.lazy(() =>
  z.string().check(
    z.minLength(1),
    withoutNul,
    z.refine((text) => Buffer.byteLength(text) <= promptMaxBytes, {
      error: `must be ${promptMaxBytes} bytes at most`,
    }),
  ),
);

export const requestLimitsSchema = z.lazy(() =>
  z.partial(
    z.strictObject({
      maxDurationMs: z.int().check(z.minimum(1000), z.maximum(day)),
      inactivityMs: z.int().check(z.minimum(1000), z.maximum(day)),
      maxCostUsd: z.number().check(z.minimum(costMinUsd), z.maximum(10_000)),
    }),
  ),
);

/**
 * A turn's limits: the requested ones over the defaults. A turn cannot outlive its sandbox, so a duration beyond the
 * plan's maximum life is refused, and a default beyond it is cut.
 */
export function limitsFrom(
  asked: z.infer<typeof requestLimitsSchema> | undefined,
  { maxDurationMs, inactivityMs, maxCostUsd, sandboxMaxMs }: Limits & { sandboxMaxMs: number },
): Limits {
  if ((asked?.maxDurationMs ?? 0) > sandboxMaxMs) {
    const message = `must be at most ${sandboxMaxMs}: no sandbox lives longer`;
    const path = "limits.maxDurationMs";
    throw new AppError("invalid_request", `${path}: ${message}`, { issues: [{ path, message }] });
  }
  const budget = asked?.maxCostUsd ?? maxCostUsd;
  return {
    maxDurationMs: asked?.maxDurationMs ?? Math.min(maxDurationMs, sandboxMaxMs),
    inactivityMs: asked?.inactivityMs ?? inactivityMs,
    ...(budget !== undefined && { maxCostUsd: budget }),
  };
}

const envSchema = z.lazy(() =>
  z
    .record(
      z
        .string()
        .check(z.regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, { error: "must be the name of a variable" })),
      z.string().check(withoutNul),
    )
    .check(
      z.refine((env) => Object.keys(env).length <= envMaxNames, {
        error: `must have ${envMaxNames} names at most`,
      }),
      z.refine((env) => Buffer.byteLength(JSON.stringify(env)) <= envMaxBytes, {
        error: `must be ${envMaxBytes} bytes at most`,
      }),
      z.refine((env) => !Object.keys(env).some((name) => name.startsWith("CONCIERGE_")), {
        error: "must not have names that start with CONCIERGE_",
      }),
    ),
);

const metadataSchema = z.lazy(() =>
  z
    .record(
      z.string().check(z.minLength(1), z.maxLength(metadataKeyMaxLength)),
      z.string().check(z.maxLength(metadataValueMaxLength)),
    )
    .check(
      z.refine((data) => Object.keys(data).length <= metadataMaxKeys, {
        error: `must have ${metadataMaxKeys} keys at most`,
      }),
    ),
);

/** A subset of what git accepts as a branch name. */
const branchSchema = z.lazy(() =>
  z.string().check(
    z.regex(/^(?![-/.])(?!.*(?:\.\.|\/\/|@\{|\.lock(?:\/|$)))[A-Za-z0-9._/@+-]{1,200}(?<![/.])$/, {
      error: "must be a branch name",
    }),
  ),
);

const credentialSchema = {
  username: z
    .string()
    .check(z.regex(/^[\x21-\x7e]{1,128}$/, { error: "must be 1 to 128 printable characters" })),
  token: z
    .string()
    .check(z.regex(/^[\x21-\x7e]{1,1024}$/, { error: "must be 1 to 1024 printable characters" })),
};

const repoRequestSchema = z.lazy(() =>
  z.strictObject({
    url: z.url({ protocol: /^https?$/, error: "must be an https URL" }).check(
      z.maxLength(repoUrlMaxLength),
      z.refine(hasNoCredential, {
        error: "must not contain a credential; send username and token instead",
      }),
    ),
    baseBranch: z.optional(branchSchema),
    branch: z.optional(branchSchema),
    push: z.optional(z.boolean()),
    username: z.optional(credentialSchema.username),
    token: z.optional(credentialSchema.token),
  }),
);

/** As the URL is understood, not as it is written: `https:///user:pw@host` has a credential, too. */
function hasNoCredential(text: string): boolean {
  const url = URL.parse(text);
  return !url?.username && !url?.password;
}

const hostSchema = z.lazy(() =>
  z
    .string()
    .check(
      z.maxLength(hostMaxLength),
      z.regex(/^(\*|(\*\.)?[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*)$/, { error: "must be a host name or *" }),
    ),
);

export const startRequestSchema = z
  .lazy(() =>
    z.strictObject({
      prompt: promptSchema,
      agent: z.optional(z.enum(agents)),
      sessionKey: z.optional(sessionKeySchema),
      repo: z.optional(repoRequestSchema),
      keepAlive: z.optional(z.boolean()),
      limits: z.optional(requestLimitsSchema),
      env: z.optional(envSchema),
      webhook: z.optional(
        z.strictObject({
          url: z
            .url({ protocol: /^https?$/, error: "must be an https URL" })
            .check(
              z.maxLength(webhookUrlMaxLength),
              z.refine(hasNoCredential, { error: "must not contain a credential" }),
            ),
        }),
      ),
      leftovers: z.optional(z.enum(leftoverPolicies)),
      network: z.optional(z.strictObject({ allow: z.array(hostSchema).check(z.maxLength(hostsMax)) })),
      metadata: z.optional(metadataSchema),
    }),
  )
  .register(z.globalRegistry, { id: "StartRequest" });

export type StartRequest = z.infer<typeof startRequestSchema>;

/** The next turn. Secrets are deleted with their turn, so this request brings its own. */
export const continueRequestSchema = z
  .lazy(() =>
    z.strictObject({
      prompt: promptSchema,
      limits: z.optional(requestLimitsSchema),
      env: z.optional(envSchema),
      repo: z.optional(z.strictObject(credentialSchema)),
      leftovers: z.optional(z.enum(leftoverPolicies)),
    }),
  )
  .register(z.globalRegistry, { id: "ContinueRequest" });

export type ContinueRequest = z.infer<typeof continueRequestSchema>;
