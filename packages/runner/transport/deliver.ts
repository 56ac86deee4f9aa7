import type {
  BeatPost,
  ClonePost,
  EndPost,
  FinalizePost,
  GitCredential,
  PostKind,
  Timings,
} from "@concierge/protocol";
import type { Output } from "../output/output.ts";
import { uptimeMs } from "../process/clock.ts";
import { type Answer, backoffMs, type Client, waitMs } from "./client.ts";

export type Delivery =
  | { kind: "done" }
  | { kind: "stopped" }
  | { kind: "gave_up" }
  | { kind: "rejected"; detail: string };

/** A grant that the turn waits for. It is requested until it is granted or Concierge says stop. */
export interface GrantRequest {
  kind: "clone" | "finalize";
  post: ClonePost | FinalizePost;
  onGranted(credential: GitCredential | null): void;
}

export interface DeliverOptions {
  output: Output;
  client: Client;
  grantRequest: () => GrantRequest | undefined;
  /** Undefined until the agent has ended. */
  end: () => EndPost | undefined;
  beat: () => BeatPost;
  /** Resolves after `ms`, or earlier if there may be something to send. */
  idle: (ms: number) => Promise<void>;
  sleep: (ms: number) => Promise<void>;
  onAcknowledged: () => void;
  /** Checked before each post. */
  hasEnded: () => boolean;
  timings: Timings;
}

interface Job {
  kind: PostKind;
  body: Buffer;
}

/**
 * One loop sends one post at a time, so posts stay in order: output first, then a grant request or the end, and a beat
 * if there is nothing else. A failed post needs no bookkeeping, because it is still the next one to send.
 */
export async function deliver(options: DeliverOptions): Promise<Delivery> {
  const { output, client, sleep, timings } = options;
  let failures = 0;
  let waits = 0;
  let answeredMs = uptimeMs();

  while (!options.hasEnded()) {
    const job = nextJob(options, answeredMs);
    if (job === undefined) {
      await options.idle(Math.min(output.dueInMs(), answeredMs + timings.beatMs - uptimeMs()));
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
    answeredMs = uptimeMs();
    if (answer.kind === "granted") {
      options.grantRequest()?.onGranted(answer.credential);
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

function nextJob(
  { output, grantRequest, end, beat, timings }: DeliverOptions,
  answeredMs: number,
): Job | undefined {
  const body = output.head();
  if (body !== undefined) return { kind: "output", body };
  const request = grantRequest();
  if (request !== undefined) return toJob(request.kind, request.post);
  const ending = end();
  if (ending !== undefined) return toJob("end", ending);
  if (uptimeMs() - answeredMs < timings.beatMs) return undefined;
  return toJob("beat", beat());
}

function toJob(kind: PostKind, post: BeatPost | ClonePost | FinalizePost | EndPost): Job {
  return { kind, body: Buffer.from(JSON.stringify(post)) };
}

/** The last post of a runner that cannot continue. It is not retried. */
export async function reportOnce(client: Client, post: EndPost): Promise<Answer> {
  const { kind, body } = toJob("end", post);
  return client.post(kind, body);
}
