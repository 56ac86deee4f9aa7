import {
  carryOut,
  continueTask,
  deleteSession,
  deliverWebhook,
  fireTimer,
  grantClone,
  grantPush,
  reap,
  release,
  reportEnd,
  requestSession,
  start,
  stop,
  takeBeat,
  takeOutput,
} from "@concierge/core/verbs";

/** The core's verbs as the functions call them; a mutant may put another in the place of one. */
export const verbs = {
  start,
  stop,
  continueTask,
  carryOut,
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
