/**
 * What the runner says to Concierge and what it hears back. Each post has the turn's token as bearer: output (numbered
 * batches, in order, one at a time), beat (only in silence) and end (once, after the last batch). With a repository
 * two more: clone (before the agent) and finalize (after the last batch, when there is something to push).
 */

export const RUNNER_PROTOCOL_VERSION = 1;

export const RUNNER_PATHS = {
  output: "/v1/runner/output",
  beat: "/v1/runner/beat",
  clone: "/v1/runner/clone",
  finalize: "/v1/runner/finalize",
  end: "/v1/runner/end",
} as const;

/**
 * Names the turn in both directions. On a request it is what an edge can count by, as many sandboxes share one address.
 * On an answer it is the proof that Concierge itself speaks: it is put there only for a token that Concierge issued.
 * The runner takes an answer without it for a fault of the network and asks again.
 */
export const turnHeader = "x-concierge-turn";

export function turnMark({ taskId, turn }: { taskId: string; turn: number }): string {
  return `${taskId}/${turn}`;
}

/**
 * Bytes of output and of agent events in one output post. A post is one item of the table, which stays under 200 KB
 * with what goes around each chunk.
 */
export const MAX_BATCH_BYTES = 144 * 1024;
/** Chunks in one output post, whatever their size. */
export const MAX_BATCH_CHUNKS = 1000;
export const MAX_TEXT_LENGTH = 4000;
/** What is kept of one text that an agent said, and of what went into a tool or came out of it, in UTF-8. */
export const MAX_EVENT_TEXT_BYTES = 8 * 1024;
export const MAX_TOOL_TEXT_BYTES = 2 * 1024;
/** What is kept of git's own words about a failure. */
export const MAX_DETAIL_LENGTH = 1000;

export type Stream = "stdout" | "stderr";

/** What the agent is busy with while it prints nothing. */
export type Activity = "none" | "model" | "tool";

/** What an adapter understood of its agent's stream. Texts are masked, without ANSI sequences, and cut. */
export type AgentEvent =
  | { kind: "text"; text: string }
  | { kind: "tool_use"; name: string; input: string }
  | { kind: "tool_result"; ok: boolean; text: string }
  | { kind: "result"; ok: boolean; text: string };

/** Of this turn alone; costs are dollars. */
export interface AgentUsage {
  inputTokens: number;
  outputTokens: number;
  costUsd: number;
}

/** What is known of the agent by now; absent where nothing is. */
export interface AgentReport {
  usage?: AgentUsage;
  /** The agent's own name for its conversation, by which the next turn goes on with it. */
  conversationId?: string;
}

export interface StreamChunk {
  stream: Stream;
  /** When its first byte was read. */
  at: string;
  /** Base64. Never ends inside a UTF-8 character that goes on in the stream's next chunk. */
  data: string;
}

/** Behind the output that it was read from. */
export interface AgentChunk {
  at: string;
  agent: AgentEvent;
}

export type OutputChunk = StreamChunk | AgentChunk;

export interface OutputPost extends AgentReport {
  /** 1, 2, 3 … A batch that is sent again has the same number and the same bytes. */
  seq: number;
  chunks: OutputChunk[];
}

export interface BeatPost extends AgentReport {
  activity: Activity;
}

/** Asks for the credential to clone with. Asked in every turn with a repository, also where the clone is there. */
export interface ClonePost {
  /** Only the runner knows it. The credential is for whoever asked first: asking again takes the same nonce. */
  nonce: string;
}

/** Asks for the push. Asked only when the agent has ended well, all its output is taken, and there is a new commit. */
export interface FinalizePost {
  commit: string;
  branch: string;
  exitCode: 0;
  /** As in the end. */
  text: string;
}

export interface GitCredential {
  username: string;
  token: string;
}

/** `go` is the grant, with null for a repository that wants no credential. `stop` and `wait` are as everywhere. */
export type GrantAnswer =
  | { action: "go"; credential: GitCredential | null }
  | { action: Extract<RunnerAction, "stop" | "wait"> };

export type EndReason =
  | "exited"
  | "deadline"
  | "inactivity"
  | "agent_missing"
  | "install_failed"
  | "clone_failed"
  | "runner_error";

export interface EndPost extends AgentReport {
  /** The last batch that was acknowledged; 0 where there was no output. */
  lastSeq: number;
  /** 1 where the agent exited with 0 and said that it has failed. */
  exitCode: number | null;
  signal: string | null;
  reason: EndReason;
  /** How long the agent's process lived, by a monotonic clock; absent where there was none to see the end of. */
  agentMs?: number;
  /** Bytes the agent wrote beyond `maxOutputBytes`, read and thrown away. */
  outputCutBytes: number;
  /** What the agent answered, else the end of stdout; without ANSI sequences, at most `MAX_TEXT_LENGTH` UTF-16 units. */
  text: string;
  detail?: string;
  /** What the agent left is this commit, for this branch; absent where it is what the turn began with. */
  commit?: string;
  branch?: string;
  /** What became of the push that was granted; absent where none was. */
  pushed?: boolean;
}

/**
 * `wait`: the turn is not recorded as running yet, ask again with the same post. `stop`: kill the agent, say nothing
 * more. `continue` answers output and beats, `done` answers the end.
 */
export type RunnerAction = "continue" | "stop" | "wait" | "done";

export interface RunnerAnswer {
  action: RunnerAction;
}

/** In the directory of a turn. `prompt` is uploaded with the runner, the runner writes the others. */
export const RUN_FILES = {
  prompt: "prompt",
  state: "state.json",
} as const;

/** `state.json`, for anyone who asks the sandbox directly. Replaced atomically, at most once a second. */
export interface RunnerState {
  /** When it was written. At least every ten seconds while the runner lives: an older one is of a runner that does not. */
  at: string;
  pid: number;
  agentPid: number | null;
  lastOutputAt: string | null;
  /** Undelivered output is there while `ackedSeq` is smaller. */
  producedSeq: number;
  ackedSeq: number;
  activity: Activity;
}

export const RUNNER_EXIT = {
  /** The end was reported and taken. */
  done: 0,
  /** Concierge said stop; the agent is killed. */
  stopped: 10,
  /** Concierge could not be reached until `giveUpMs` after the deadline; the agent is dead. */
  gaveUp: 11,
  /** The remote could not be asked what became of the push; nothing was reported. */
  pushUnknown: 12,
  badConfig: 64,
  runnerError: 70,
  /** A signal ended the runner; the agent is killed, nothing was reported. */
  signalled: 143,
} as const;

/** In the environment of the agent and of all it starts: how a sweep finds what left the process group. */
export const TASK_MARKER = "CONCIERGE_TASK";
export const TURN_MARKER = "CONCIERGE_TURN_NUMBER";
