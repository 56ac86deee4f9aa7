import { reap } from "@concierge/core/reaper/reap";
import { release } from "@concierge/core/session/release";
import { deleteSession, requestSession } from "@concierge/core/session/verbs";
import { continueTask } from "@concierge/core/task/continue";
import { reportEnd } from "@concierge/core/task/end";
import { grantClone, grantPush } from "@concierge/core/task/finalize";
import { takeBeat, takeOutput } from "@concierge/core/task/output";
import { start } from "@concierge/core/task/start";
import { stop } from "@concierge/core/task/stop";
import { fireTimer } from "@concierge/core/task/timer";
import { deliverWebhook } from "@concierge/core/webhook/deliver";
import { handleWork } from "@concierge/core/work";

/** The core's verbs as the functions call them. A mutant may replace one. */
export const verbs = {
  start,
  stop,
  continueTask,
  handleWork,
  deliverWebhook,
  release,
  requestSession,
  deleteSession,
  fireTimer,
  reap,
  takeOutput,
  takeBeat,
  grantClone,
  grantPush,
  reportEnd,
};

export type Verbs = typeof verbs;
