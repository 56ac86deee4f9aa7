/** Every bound and default that is not configurable. Those that the runner shares are in the protocol. */
export { batchMaxBytes, batchMaxChunks, branchMaxLength, resultTextMaxLength } from "@concierge/protocol";

export const app = "concierge";

const second = 1000;
const minute = 60 * second;
const day = 24 * 60 * minute;

/** A worker's claim on a turn, and how often it is renewed while the worker lives. */
export const claimMs = 10 * second;
export const claimRenewMs = 3 * second;

/** How long a lease on a missing task is respected: its starter may still be about to write the task. */
export const leaseGraceMs = 30 * second;

/** A sandbox outlives its turn's deadline by this, so that the end can still be reported. */
export const sandboxSlackMs = 2 * minute;

/** A runner's token outlives its turn's deadline by this: output sent in time must still be accepted. */
export const tokenSlackMs = 10 * minute;

/** The first and the longest pause before acquiring a sandbox is retried; doubled each time. */
export const retryProvisionMs = 2 * second;
export const retryProvisionMaxMs = 20 * second;

/** How long a create may still be under way after its caller gave up. */
export const longestCreateMs = 2 * minute;

/** The first and the longest pause before an unproven stop is retried; doubled each time. */
export const terminateRetryMs = 2 * second;
export const terminateRetryMaxMs = minute;

/** How long a granted push may take before its outcome is looked up. */
export const finalizeMs = minute;
/** How long the remote is asked about a push. Then the turn ends with the outcome unknown. */
export const finalizeGiveUpMs = 15 * minute;

/** After this many unanswered sweeps in a row the sandbox is deleted instead. */
export const unansweredSweepsMax = 3;

/** The reaper looks this much later than the timer would have fired. */
export const reaperSlackMs = 5 * second;

/** Without output, waiting for the model or a tool counts as work for this long; then the turn counts as hung. */
export const activityCapMs = 15 * minute;
/** The pause before a sandbox that did not answer is asked about silence again. */
export const silenceRetryMs = 30 * second;

/** When the reaper does a turn's follow-up, if no worker has. */
export const followUpDueMs = 10 * second;
/** The first and the longest pause before the reaper returns to an item; doubled each time. */
export const reapRetryMs = minute;
export const reapRetryMaxMs = 15 * minute;

/** A warm sandbox with less life than this is removed. And how many are requested per pass. */
export const warmLifeMs = 10 * minute;
export const warmAtOnce = 5;

/** A sandbox's life is extended at most once in this time, unless a turn needs it sooner. */
export const extendEveryMs = minute;
/** How long other processes wait for the creator of a session's sandbox before they look for it themselves. */
export const createPatienceMs = 30 * second;
/** How long extending or moving a sandbox may take before another process tries. */
export const sandboxBusyMs = minute;
/** How often a process that waits for another's create looks. */
export const createPollMs = 100;
/** A snapshot for moving a session is needed only until the next sandbox is created from it. */
export const moveSnapshotMs = 60 * minute;
/** A sandbox's environment is inspected again after this. */
export const environmentFreshMs = 10 * minute;
/** How long the setup of a new sandbox may take. */
export const setupTimeoutMs = 100 * second;
/** How long a base snapshot lasts, and how long before its end it is rebuilt. */
export const baseSnapshotMs = 30 * day;
export const baseRenewMs = 2 * day;
/** `Retry-After` of a 429 for capacity. */
export const capacityRetryMs = 5 * second;
/** Time and output limits of `exec`. */
export const execTimeoutMs = minute;
export const execTimeoutMaxMs = 10 * minute;
export const execMaxBytes = 1024 * 1024;
/** A command that runs longer than the first value marks its session as in use, for the second at a time. */
export const execUnmarkedMs = 200;
export const execMarkMs = 15 * second;
/** The size of a sandbox. */
export const sandboxVcpus = 2;
export const memoryGbPerVcpu = 2;
export const usageRetentionMs = 400 * day;
/** Longer than the longest window of the success metrics. */
export const measuresRetentionMs = 9 * day;

/** The size of a replay, and of one prompt or answer in it. */
export const replayMaxBytes = 48 * 1024;
export const replayPartMaxBytes = 6 * 1024;

/** The pauses before a webhook is retried; then it becomes a dead letter. */
export const webhookRetryMs = [5, 30, 120, 600, 900].map((seconds) => seconds * second);

/** A quarter of the deliveries that can be under way at once: 10 functions with 10 messages each. */
export const webhooksPerUser = 25;
/** The longest a delivery lasts: the function's time limit. */
export const webhookMaxMs = 30 * second;
/** How long a delivery waits for others of the same user. */
export const webhookWaitMs = 2 * second;
/** How long a replaced webhook secret may still be used. */
export const webhookOverlapMaxMs = 30 * day;
export const webhookOverlapMs = day;

/** How many variables are recorded, and how much of a name or version. */
export const environmentNamesMax = 200;
export const environmentNameMaxLength = 200;

/** Bounds of a task's item. */
export const turnsMax = 200;
export const phasesKept = 60;
export const noticesKept = 40;
/** How many take-overs of one turn are kept as phases; later ones only show as progress. */
export const takeOversKept = 10;
/** Failed webhooks add no notice beyond this; the turn itself still does. */
export const noticesMax = 60;
/** Space for the turn's own notices, and for webhooks that fail at the same moment. */
export const noticesSlack = 20;
/** The longest error and notice texts. */
export const errorDetailMaxBytes = 4000;
export const noticeDetailMaxBytes = 300;
/** A prompt up to this size is part of the task's item; a longer one has its own item. */
export const inlinePromptMaxBytes = 1024;

export const keyNameMaxLength = 100;
export const keysPerUserMax = 50;
/** The last use of a key is recorded at most this often. */
export const keyUseEveryMs = 10 * minute;
/** How long a rotated key may still be accepted. */
export const keyOverlapMaxMs = 30 * day;

export const sessionRetentionMs = 30 * day;
export const idempotencyMs = day;

export const promptMaxBytes = 128 * 1024;
export const envMaxNames = 64;
export const envMaxBytes = 32 * 1024;
export const metadataMaxKeys = 16;
export const metadataKeyMaxLength = 64;
export const metadataValueMaxLength = 512;
export const repoUrlMaxLength = 1024;
export const webhookUrlMaxLength = 2048;
export const hostsMax = 50;
/** Hosts that a turn needs itself: the callback, the git remote, its agent's. */
export const ownHostsMax = 10;
/** How long a runner that reports its end waits for its credentials to be taken away. */
export const networkCloseMs = 3_000;
export const hostMaxLength = 253;
export const bodyMaxBytes = 1024 * 1024;
