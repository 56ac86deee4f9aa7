/** Each bound and default that is not configuration, once. */
export const app = "concierge";

const second = 1000;
const minute = 60 * second;
const day = 24 * 60 * minute;

/** A worker's claim on a turn, and how often it is renewed while the worker lives. */
export const claimMs = 10 * second;
export const claimRenewMs = 3 * second;

/** How long a lease whose task can not be found is left alone: its starter may still be about to write it. */
export const leaseGraceMs = 30 * second;

/** A sandbox outlives the deadline of its turn by this, so that the turn's end can be told. */
export const sandboxSlackMs = 2 * minute;

/** A runner's token outlives its turn's deadline by this: what it said in time must still be taken. */
export const tokenSlackMs = 10 * minute;

/** A turn or a room that can not be had now is tried for again after this, doubled each time up to the second. */
export const retryProvisionMs = 2 * second;
export const retryProvisionMaxMs = 20 * second;

/** The longest a create may still be under way after nobody waits for it any more. */
export const longestCreateMs = 2 * minute;

/** A stop that could not be proven is tried again after this, doubled each time up to the second. */
export const terminateRetryMs = 2 * second;
export const terminateRetryMaxMs = minute;

/** How long a granted push may take before its outcome is looked up. */
export const finalizeMs = minute;

/** Timers go first; the reaper looks this much later at what they should have seen to. */
export const reaperSlackMs = 5 * second;

/** An agent may say that it waits for its model or a tool for this long, and not be taken for silent. */
export const activityCapMs = 15 * minute;

/** A warm sandbox with less life than this is not worth keeping, and how many are made in one sweep. */
export const warmLifeMs = 10 * minute;
export const warmAtOnce = 5;

/** A sandbox's expiry is pushed out by at most one call in this time, but where a turn needs it sooner. */
export const extendEveryMs = minute;
/** How long others wait for someone who makes a session's sandbox before they look for it themselves. */
export const createPatienceMs = 30 * second;
/** How long extending or moving a sandbox may take before another tries. */
export const sandboxBusyMs = minute;
/** How often whoever waits for another's create looks. */
export const createPollMs = 100;
/** A snapshot that a session moves with is only needed until the next sandbox is made from it. */
export const moveSnapshotMs = 60 * minute;
/** What is known of a sandbox's environment is looked at again after this. */
export const environmentFreshMs = 10 * minute;
/** The longest that installing into a new sandbox may take. */
export const setupTimeoutMs = 100 * second;
/** A base snapshot lasts this long, and is made anew when less than a part of it is left. */
export const baseSnapshotMs = 30 * day;
export const baseRenewMs = 2 * day;
/** How long a 429 asks to be left alone. */
export const noRoomRetryMs = 5 * second;
/** A command that a user runs in a sandbox. */
export const execTimeoutMs = minute;
export const execTimeoutMaxMs = 10 * minute;
export const execMaxBytes = 1024 * 1024;
/** One that takes longer than the first marks its session as in use, for so long at a time. */
export const execUnmarkedMs = 200;
export const execMarkMs = 15 * second;
/** What a sandbox is given. */
export const sandboxVcpus = 2;
export const memoryGbPerVcpu = 2;
export const usageRetentionMs = 400 * day;

/** What an agent is told of a conversation it can not remember: altogether, and of one prompt or answer. */
export const replayMaxBytes = 48 * 1024;
export const replayPartMaxBytes = 6 * 1024;

/** How long after each failure a webhook is tried again; then it is a dead letter. */
export const webhookRetryMs = [5, 30, 120, 600, 900].map((seconds) => seconds * second);

/** What a conversation may have. */
export const turnsMax = 200;
export const phasesKept = 60;

export const taskRetentionMs = 30 * day;
export const sessionRetentionMs = 30 * day;
export const idempotencyMs = day;

export const promptMaxBytes = 128 * 1024;
export const envMaxNames = 64;
export const envMaxBytes = 32 * 1024;
export const metadataMaxKeys = 16;
export const bodyMaxBytes = 1024 * 1024;

/** One batch of output: under the table's limit for an item, with room for what goes around it. */
export const batchMaxBytes = 300 * 1024;
