import { AppError, type EndingDeps, errorTable } from "@concierge/core";
import type { PostKind } from "@concierge/protocol";
import { type Answer as Heard, classify as realClassify } from "@concierge/runner/client";
import { strangeAnswers } from "../testing/hostile-edge.ts";
import type { Random } from "./random.ts";
import type { Actor } from "./scheduler.ts";
import type { Answer } from "./world.ts";

export type Classify = typeof realClassify;
type Reply = Parameters<Classify>[1];

export interface EdgeOptions {
  random: Random;
  /** A request to the api over a network that may lose the request or the response. */
  call<T>(actor: Actor, what: string, verb: (deps: EndingDeps) => Promise<T>): Promise<Answer<T> | undefined>;
  /** Whether something in between answers this one. */
  isHostile(): boolean;
}

/** What a runner hears, and whether Concierge said it. */
export interface Hearing {
  answer: Heard;
  isOurs: boolean;
}

export type Request = (
  actor: Actor,
  post: { kind: PostKind; mark: string; label: string },
  verb: (deps: EndingDeps) => Promise<object>,
) => Promise<Hearing>;

/**
 * What is between runners and the api: it forwards posts, or answers in Concierge's place, before or after forwarding.
 */
export function createEdge(
  { random, call, isHostile }: EdgeOptions,
  classify: Classify = realClassify,
): Request {
  return async (actor, { kind, mark, label }, verb) => {
    const [isBlocked, isReplaced] = [isHostile(), isHostile()];
    const answer = isBlocked ? undefined : await call(actor, label, verb);
    if (isBlocked || (answer && isReplaced))
      return { answer: classify(kind, strangeReply(random), mark), isOurs: false };
    if (!answer) return { answer: { kind: "retry", afterMs: 0 }, isOurs: false };
    return { answer: classify(kind, replyOf(answer, mark), mark), isOurs: true };
  };
}

/** The api's response: with the turn's mark, and a problem if it refuses. */
function replyOf(answer: Answer<object>, mark: string): Reply {
  if (answer.ok) return { ...reply, status: 200, turn: mark, body: JSON.stringify(answer.value) };
  const code = answer.error instanceof AppError ? answer.error.code : "internal";
  return { ...reply, status: errorTable[code].status, turn: mark, body: JSON.stringify({ code }) };
}

function strangeReply(random: Random): Reply {
  const { status, body = "" } = random.pick([...strangeAnswers, ...convincing]);
  return { ...reply, status, body };
}

/** What an edge that leads to another Concierge could answer: everything is right except the turn. */
const convincing = [
  { status: 200, body: '{"action":"stop"}' },
  { status: 404, body: '{"code":"not_found"}' },
  { status: 401, body: '{"code":"unauthorized"}' },
];

const reply = { retryAfter: undefined, turn: undefined };
