import { type Answer, backoffMs, type Client, type PostKind, waitMs } from "./client.ts";
import { uptimeMs } from "./clock.ts";
import type { Timings } from "./config.ts";
import type { Output } from "./output.ts";
import type { BeatPost, ClonePost, EndPost, FinalizePost, GitCredential } from "./protocol.ts";

export type Delivery =
  | { kind: "done" }
  | { kind: "stopped" }
  | { kind: "gave_up" }
  | { kind: "rejected"; detail: string };

/** Something the turn waits for. It is asked for until it is granted, or until Concierge says stop. */
export interface Request {
  kind: "clone" | "finalize";
  post: ClonePost | FinalizePost;
  onGranted(credential: GitCredential | null): void;
}

export interface DeliverOptions {
  output: Output;
  client: Client;
  request: () => Request | undefined;
  /** Undefined until the agent has ended. */
  end: () => EndPost | undefined;
  beat: () => BeatPost;
  /** Resolves when there may be something to send before `ms` are over. */
  idle: (ms: number) => Promise<void>;
  sleep: (ms: number) => Promise<void>;
  onAcknowledged: () => void;
  /** Asked before each post: nothing more is sent once it is true. */
  isOver: () => boolean;
  timings: Timings;
}

interface Job {
  kind: PostKind;
  body: Buffer;
}

/**
 * One loop, one post at a time, so order needs no care: output first, then what is asked for or the end, and in
 * silence a beat. A post that failed is not remembered, it is simply still the next thing to send.
 */
export async function deliver(options: DeliverOptions): Promise<Delivery> {
  const { output, client, sleep, timings } = options;
  let failures = 0;
  let waits = 0;
  let heardMs = uptimeMs();

  while (!options.isOver()) {
    const job = nextJob(options, heardMs);
    if (job === undefined) {
      await options.idle(Math.min(output.dueInMs(), heardMs + timings.beatMs - uptimeMs()));
      continue;
    }
    const answer = await client.post(job.kind, job.body);
    if (answer.kind === "rejected") return answer;
    if (answer.kind === "retry") {
      failures++;
      await sleep(Math.max(answer.afterMs, backoffMs(failures, Math.random)));
      continue;
    }
    failures = 0;
    waits = answer.kind === "action" && answer.action === "wait" ? waits + 1 : 0;
    heardMs = uptimeMs();
    if (answer.kind === "granted") {
      options.request()?.onGranted(answer.credential);
      continue;
    }
    switch (answer.action) {
      case "stop":
        return { kind: "stopped" };
      case "done":
        return { kind: "done" };
      case "wait":
        await sleep(waitMs(waits, timings.waitMs));
        break;
      case "continue":
        if (job.kind === "output") {
          output.acknowledge();
          options.onAcknowledged();
        }
    }
  }
  return { kind: "gave_up" };
}

function nextJob({ output, request, end, beat, timings }: DeliverOptions, heardMs: number): Job | undefined {
  const body = output.head();
  if (body !== undefined) return { kind: "output", body };
  const asked = request();
  if (asked !== undefined) return toJob(asked.kind, asked.post);
  const ending = end();
  if (ending !== undefined) return toJob("end", ending);
  if (uptimeMs() - heardMs < timings.beatMs) return undefined;
  return toJob("beat", beat());
}

function toJob(kind: PostKind, post: BeatPost | ClonePost | FinalizePost | EndPost): Job {
  return { kind, body: Buffer.from(JSON.stringify(post)) };
}

/** The last word of a runner that cannot go on: tried once. */
export async function reportOnce(client: Client, post: EndPost): Promise<Answer> {
  const { kind, body } = toJob("end", post);
  return client.post(kind, body);
}
