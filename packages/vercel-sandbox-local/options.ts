import { z } from "zod";

const hourMs = 3_600_000;
const mb = 1024 * 1024;
const ms = z.number().int().min(0);
const bytes = z.number().int().positive();

const Latency = z.object({
  /** Added to each create and resume. */
  createMs: ms.default(0),
  /** Minimum duration of `npm install`, `i`, `ci` and `add`. */
  installMs: ms.default(0),
  /** How long a session stays in `stopping`. */
  stopMs: ms.default(0),
});

const Limits = z.object({
  /** Beyond this, a create or resume answers 429. */
  maxSandboxes: z.number().int().positive().default(2_000),
  retryAfterSeconds: z.number().int().min(0).default(1),
  minTimeoutMs: ms.default(1_000),
  maxTimeoutMs: ms.default(24 * hourMs),
  defaultTimeoutMs: ms.default(hourMs / 12),
  maxTags: z.number().int().default(5),
  maxPorts: z.number().int().default(15),
  maxJsonBytes: bytes.default(2 * mb),
  /** The compressed body of one write. */
  maxUploadBytes: bytes.default(256 * mb),
  /** Unpacked size of one write, in total and per file. */
  maxUnpackedBytes: bytes.default(1024 * mb),
  maxEntryBytes: bytes.default(512 * mb),
  maxEntries: z.number().int().positive().default(20_000),
  maxSnapshotBytes: bytes.default(8 * 1024 * mb),
  /** Per command. The rest is dropped and the log says so. */
  maxLogBytes: bytes.default(64 * mb),
  defaultSnapshotExpirationMs: ms.default(30 * 24 * hourMs),
});

const Options = z.object({
  dataDir: z.string().min(1),
  port: z.number().int().min(0).max(65_535).default(0),
  host: z.string().default("127.0.0.1"),
  /** Accepted bearer tokens. Without this, any token is accepted. */
  tokens: z.array(z.string().min(1)).optional(),
  /** Enables the control routes. They need a token because a sandboxed process can reach loopback. */
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
