import * as z from "zod/mini";
import {
  batchMaxBytes,
  batchMaxChunks,
  branchMaxLength,
  commitPattern,
  conversationIdPattern,
  costMaxUsd,
  detailMaxLength,
  eventMaxBytes,
  leftoversMax,
  nonceMaxLength,
  nonceMinLength,
  programNameMaxLength,
  resultTextMaxLength,
  signalMaxLength,
} from "../limits.ts";
import { activities, endReasons, streams } from "../messages.ts";

const text = z.string();
const count = z.int().check(z.minimum(0));
const commit = z.string().check(z.regex(commitPattern));
const branch = z.string().check(z.maxLength(branchMaxLength));
const resultText = z.string().check(z.maxLength(resultTextMaxLength));

/** What an adapter understood of its agent's output. The runner has masked, cleaned and cut the texts. */
export const agentEventSchema = z.lazy(() =>
  z.discriminatedUnion("kind", [
    z.object({ kind: z.literal("text"), text }),
    z.object({ kind: z.literal("tool_use"), name: text, input: text }),
    z.object({ kind: z.literal("tool_result"), ok: z.boolean(), text }),
    z.object({ kind: z.literal("result"), ok: z.boolean(), text }),
  ]),
);

const leftoverSchema = z.object({
  pid: count,
  program: z.string().check(z.maxLength(programNameMaxLength)),
  taskId: z.string().check(z.maxLength(programNameMaxLength)),
  turn: count,
  /** It was ended before this turn's agent started. */
  ended: z.boolean(),
});

const report = {
  /** Of this turn alone. */
  usage: z.exactOptional(
    z.object({
      inputTokens: count,
      outputTokens: count,
      // Rounded to a billionth of a dollar: the table cannot store every JSON number.
      costUsd: z.pipe(
        z.number().check(z.minimum(0), z.maximum(costMaxUsd)),
        z.transform((usd) => Math.round(usd * 1e9) / 1e9),
      ),
    }),
  ),
  /** Processes of earlier turns that were running when this one began. */
  leftovers: z.exactOptional(z.array(leftoverSchema).check(z.maxLength(leftoversMax))),
  /** The agent's own id of its conversation. The next turn resumes it. */
  conversationId: z.exactOptional(z.string().check(z.regex(conversationIdPattern))),
};

/** What the runner knows about its agent so far. Part of every output, beat and end post. */
export const agentReportSchema = z.object(report);

export const streamChunkSchema = z.object({
  stream: z.enum(streams),
  /** When its first byte was read. */
  at: z.iso.datetime(),
  /** Base64. A UTF-8 character is never split over two chunks of a stream. */
  data: z.base64().check(z.maxLength(Math.ceil(batchMaxBytes / 3) * 4)),
});

/** Follows the output it was read from. */
export const agentChunkSchema = z.object({
  at: z.iso.datetime(),
  agent: agentEventSchema.check(
    z.refine((event) => jsonBytes(event) <= eventMaxBytes, {
      error: `must be at most ${eventMaxBytes} bytes`,
    }),
  ),
});

const chunkSchema = z.union([streamChunkSchema, agentChunkSchema]);

/** A batch of output. Batches are sent in order, one at a time. */
export const outputPostSchema = z.object({
  /** 1, 2, 3 … A retry has the same number and the same bytes. */
  seq: z.int().check(z.minimum(1)),
  chunks: z.array(chunkSchema).check(
    z.minLength(1),
    z.maxLength(batchMaxChunks),
    z.refine((chunks) => chunks.reduce((bytes, chunk) => bytes + chunkBytes(chunk), 0) <= batchMaxBytes, {
      error: `must hold at most ${batchMaxBytes} bytes`,
    }),
  ),
  ...report,
});

/** Sent only while there is no output. */
export const beatPostSchema = z.object({ activity: z.enum(activities), ...report });

/** Asks for the credential to clone with. Sent in every turn with a repository, even if the clone exists. */
export const clonePostSchema = z.object({
  /** Known only to the runner. The credential is granted to the first nonce, so a retry repeats it. */
  nonce: z.string().check(z.minLength(nonceMinLength), z.maxLength(nonceMaxLength)),
});

/** Asks to push. Sent after the agent succeeded, all output was accepted, and there is a new commit. */
export const finalizePostSchema = z.object({ commit, branch, exitCode: z.int(), text: resultText });

/** The last post of a turn. */
export const endPostSchema = z.object({
  /** The last accepted batch, 0 if there was no output. */
  lastSeq: count,
  /** 1 if the agent exited with 0 but reported a failure. */
  exitCode: z.nullable(z.int()),
  signal: z.nullable(z.string().check(z.maxLength(signalMaxLength))),
  reason: z.enum(endReasons),
  /** Bytes beyond `maxOutputBytes`, which were read and dropped. */
  outputCutBytes: count,
  /** How long the agent's process ran. Absent if its end was not observed. */
  agentMs: z.exactOptional(count),
  /** The agent's answer, or else the end of stdout, without ANSI sequences. */
  text: resultText,
  detail: z.exactOptional(z.string().check(z.maxLength(detailMaxLength))),
  /** Absent if the turn changed nothing. */
  commit: z.exactOptional(commit),
  branch: z.exactOptional(branch),
  /** The outcome of a granted push. Absent if none was granted. */
  pushed: z.exactOptional(z.boolean()),
  ...report,
});

const answer = <T extends z.ZodMiniType>(action: T) => z.object({ action });

/** Answers output and beats. */
export const continueAnswerSchema = answer(z.enum(["continue", "stop", "wait"]));
export const endAnswerSchema = answer(z.enum(["done", "stop", "wait"]));

/** Answers clone and finalize. A null credential means that the repository needs none. */
export const grantSchema = z.union([
  z.object({
    action: z.literal("go"),
    credential: z.nullable(z.object({ username: z.string(), token: z.string() })),
  }),
  answer(z.enum(["stop", "wait"])),
]);

/** What a chunk counts toward `batchMaxBytes`. The runner counts the same way. */
function chunkBytes(chunk: z.infer<typeof chunkSchema>): number {
  return "agent" in chunk ? jsonBytes(chunk.agent) : Buffer.byteLength(chunk.data, "base64");
}

function jsonBytes(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}
