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
/** The remote is asked about a push for this long; then the turn ends with the outcome unknown. */
export const finalizeGiveUpMs = 15 * minute;

/** So many sweeps in a row may go unanswered before the sandbox is deleted instead. */
export const unansweredSweepsMax = 3;

/** Timers go first; the reaper looks this much later at what they should have seen to. */
export const reaperSlackMs = 5 * second;

/** Without any output, a wait for the model or a tool counts as work for this long; then it counts as hung. */
export const activityCapMs = 15 * minute;
/** A turn whose sandbox could not be asked about its silence is asked about again after this. */
export const silenceRetryMs = 30 * second;

/** When the reaper does what follows a turn's end, if no worker has. */
export const followUpDueMs = 10 * second;
/** The reaper comes back to an item it could not finish after this, doubled each time up to the second. */
export const reapRetryMs = minute;
export const reapRetryMaxMs = 15 * minute;

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

/** How many variables of a sandbox are told by name, and how much of a name or version. */
export const environmentNamesMax = 200;
export const environmentNameMaxLength = 200;

/** What a conversation may have. */
export const turnsMax = 200;
export const phasesKept = 60;
export const noticesKept = 40;
/** Take-overs of one turn that are kept as phases; later ones only show as progress. */
export const takeOversKept = 10;
/** More notices than this are not added for webhooks that failed; those of the turn itself still are. */
export const noticesMax = 60;
/** Room for those of the turn itself, and for webhooks that fail at the same moment. */
export const noticesSlack = 20;
/** The longest text of an error, and of a notice. */
export const errorDetailMaxBytes = 4000;
export const noticeDetailMaxBytes = 300;
/** What an agent says at its end. */
export const resultTextMaxLength = 4000;
/** A prompt up to this size is part of the task's item; a longer one is only in an item of its own. */
export const inlinePromptMaxBytes = 1024;

export const taskRetentionMs = 30 * day;
export const sessionRetentionMs = 30 * day;
export const idempotencyMs = day;

export const promptMaxBytes = 128 * 1024;
export const envMaxNames = 64;
export const envMaxBytes = 32 * 1024;
export const metadataMaxKeys = 16;
export const metadataKeyMaxLength = 64;
export const metadataValueMaxLength = 512;
export const repoUrlMaxLength = 1024;
export const branchMaxLength = 200;
export const webhookUrlMaxLength = 2048;
export const hostsMax = 50;
export const hostMaxLength = 253;
export const bodyMaxBytes = 1024 * 1024;

/** One batch of output, as in the runner's protocol. It is one item, which stays under 200 KB with what goes around it. */
export const batchMaxBytes = 144 * 1024;
export const batchMaxChunks = 1000;
