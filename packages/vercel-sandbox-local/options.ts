import { z } from "zod";

const HOUR_MS = 3_600_000;
const MB = 1024 * 1024;
const ms = z.number().int().min(0);
const bytes = z.number().int().positive();

const Latency = z.object({
  /** Added to every create and resume. */
  createMs: ms.default(0),
  /** The least time an `npm install`, `i`, `ci` or `add` takes. */
  installMs: ms.default(0),
  /** How long a session stays in `stopping`. */
  stopMs: ms.default(0),
});

const Limits = z.object({
  /** Sessions alive at once; one more is a 429. */
  maxSandboxes: z.number().int().positive().default(2_000),
  retryAfterSeconds: z.number().int().min(0).default(1),
  minTimeoutMs: ms.default(1_000),
  maxTimeoutMs: ms.default(24 * HOUR_MS),
  defaultTimeoutMs: ms.default(HOUR_MS / 12),
  maxTags: z.number().int().default(5),
  maxPorts: z.number().int().default(15),
  maxJsonBytes: bytes.default(2 * MB),
  /** The compressed body of one write. */
  maxUploadBytes: bytes.default(256 * MB),
  /** What one write may unpack to, in all and per file. */
  maxUnpackedBytes: bytes.default(1024 * MB),
  maxEntryBytes: bytes.default(512 * MB),
  maxEntries: z.number().int().positive().default(20_000),
  maxSnapshotBytes: bytes.default(8 * 1024 * MB),
  /** Output kept per command; the rest is dropped and the log says so. */
  maxLogBytes: bytes.default(64 * MB),
  defaultSnapshotExpirationMs: ms.default(30 * 24 * HOUR_MS),
});

const Options = z.object({
  dataDir: z.string().min(1),
  port: z.number().int().min(0).max(65_535).default(0),
  host: z.string().default("127.0.0.1"),
  /** Bearer tokens to accept. Without them any token is good, but there must be one. */
  tokens: z.array(z.string().min(1)).optional(),
  /** The control routes exist only with a token, for a sandboxed process can reach loopback as well. */
  controlToken: z.string().min(1).optional(),
  isolation: z.enum(["auto", "bwrap", "none"]).default("auto"),
  latency: Latency.prefault({}),
  limits: Limits.prefault({}),
  onLog: z.custom<(line: string) => void>((value) => typeof value === "function").default(() => () => {}),
});

export type Latency = z.infer<typeof Latency>;
export type Limits = z.infer<typeof Limits>;
export type SandboxApiOptions = z.input<typeof Options>;
export type ResolvedOptions = z.infer<typeof Options>;

export function resolveOptions(options: SandboxApiOptions): ResolvedOptions {
  return Options.parse(options);
}

export const LatencyChange = z.object({
  createMs: ms.optional(),
  installMs: ms.optional(),
  stopMs: ms.optional(),
});
