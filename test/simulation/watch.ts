import {
  isTerminal,
  type Session,
  type Status,
  type Task,
  type TaskGuard,
  type Timer,
  type WarmSandbox,
} from "@concierge/core";
import type { MemoryProcess, MemoryWorld } from "@concierge/core/testing";
import { createEvidence } from "./evidence.ts";

/** A broken invariant of docs/architecture.md, by its number, and what broke it. */
export interface Violation {
  invariant: number;
  what: string;
}

/** One agent in one sandbox, for one turn. */
export interface Agent {
  process: MemoryProcess;
  taskId: string;
  turn: number;
  /** Once it has ended, what it left running belongs to the user. */
  ended: boolean;
}

/** Every secret of a run starts with this. */
export const canary = "canary-";

/** The allowed transitions within one turn. */
const mayBecome: Record<Status, readonly Status[]> = {
  queued: ["queued", "provisioning", "stopping", "failed"],
  provisioning: ["provisioning", "running", "stopping", "failed"],
  running: ["running", "finalizing", "stopping", "succeeded", "failed"],
  finalizing: ["finalizing", "succeeded", "failed"],
  stopping: ["stopping", "stopped", "timed_out", "failed"],
  succeeded: [],
  failed: [],
  stopped: [],
  timed_out: [],
};

export type Watch = ReturnType<typeof createWatch>;

/**
 * Sees every write and every effect at the moment it happens, and reports those that break an invariant:
 *
 *   1  no two agents live at once in a session, no session is taken from an active turn, and no more named sandboxes
 *      run than the cap allows
 *   2  no grant and no moved ref once a turn is ending, and no ref without a grant
 *   3  nothing of a turn lives, or is launched, once an end is written that the runner did not report itself
 *   4  a launch finds its timers armed; the rest is checked at the end (settle.ts)
 *   5  the table names a sandbox before it is created; the rest is checked at the end
 *   6  guards, transitions, turns and epochs; nothing is removed or killed under a running turn
 *   7  a removed sandbox never comes back
 *   8  batches are never forgotten; readers (history.ts) see each chunk once; the rest is checked at the end
 *   9  a sandbox belongs to one session for good; another user's task cannot be stopped
 *   10 no canary in what is written, sent, counted, or put on a command line (masking of output: packages/runner)
 *   11 and 12, and more of 4 and 6: evidence.ts
 */
export function createWatch({
  cap = Number.POSITIVE_INFINITY,
  now = (): number => 0,
}: {
  cap?: number;
  now?: () => number;
} = {}) {
  const violations: Violation[] = [];
  const tasks = new Map<string, Task>();
  const sessions = new Map<string, Session>();
  const agents: Agent[] = [];
  /** Turns that were stopped or timed out, from the write after which no push is granted. */
  const closed = new Set<string>();
  /** Ended turns, and whether their death had to be proven. */
  const over = new Map<string, "proven" | "by itself">();
  const grants = new Set<string>();
  const armed = new Set<string>();
  const warm = new Map<string, WarmSandbox>();
  /** All names ever used ahead: a create may succeed after its record was given up. */
  const madeAhead = new Set<string>();
  /** The first session that had each sandbox. */
  const owners = new Map<string, string>();
  const gone = new Set<string>();
  let alive = new Set<string>();
  let world: MemoryWorld | undefined;

  const report = (invariant: number, what: string): void => {
    violations.push({ invariant, what });
  };
  const evidence = createEvidence({
    report,
    tasks,
    sessions,
    exists: (name) => world?.exists(name) ?? false,
    now,
  });
  const living = (): Agent[] => agents.filter(({ process }) => process.alive);

  function taskWritten(before: Task | undefined, guard: TaskGuard | undefined, after: Task): void {
    tasks.set(after.id, after);
    keepsSecrets("a task", after);
    if (!before) return;
    const key = keyOf(after);
    if (guard && guard.turn !== before.turn) {
      report(6, `turn ${guard.turn} changed ${after.id}, which is at turn ${before.turn}`);
    }
    const from = before.state.status;
    const to = after.state.status;
    evidence.taskWritten(key, before, after);
    if (after.turn !== before.turn) {
      if (after.turn !== before.turn + 1 || !isTerminal(from) || to !== "queued") {
        report(6, `${after.id} went from turn ${before.turn}, ${from}, to turn ${after.turn}, ${to}`);
      }
      return;
    }
    if (isTerminal(from)) {
      // After the end only the count of its usage may be written.
      if (JSON.stringify(after.state) !== JSON.stringify(before.state))
        report(6, `${key} went from ${from} to ${to}`);
      return;
    }
    if (!mayBecome[from].includes(to)) report(6, `${key} went from ${from} to ${to}`);
    if (from !== to && after.phases.at(-1)?.status !== to)
      report(6, `${key} is ${to}; its phases do not say so`);
    if (after.outputSeq < before.outputSeq) report(8, `${key} forgot batch ${before.outputSeq}`);
    if (to === "stopping") closed.add(key);
    if (isTerminal(to)) ended(key, after);
  }

  function ended(key: string, task: Task): void {
    const byItself = task.phases.at(-1)?.by === "runner";
    over.set(key, byItself ? "by itself" : "proven");
    if (byItself) return;
    const left = living().filter((agent) => keyOf({ id: agent.taskId, turn: agent.turn }) === key);
    if (left.length > 0) {
      report(3, `${key} was written ${task.state.status} while it lives in ${left[0]?.process.sandbox}`);
    }
  }

  function sessionWritten(before: Session | undefined, after: Session): void {
    const key = `${after.userId}#${after.key}`;
    sessions.set(key, after);
    keepsSecrets("a session", after);
    if (after.sandbox) own(after.sandbox.name, key);
    if (!before) return;
    evidence.sessionWritten(before, after);
    if (after.epoch < before.epoch) report(6, `the epoch went back from ${before.epoch} to ${after.epoch}`);
    const held = before.lease;
    if (held && held.taskId !== after.lease?.taskId && hasBegun(tasks.get(held.taskId), held.turn)) {
      report(1, `the session was taken from ${held.taskId}, whose turn ${held.turn} has not ended`);
    }
    const given = before.sandbox?.name;
    const kept = given === undefined || after.sandbox?.name === given;
    if (!kept && after.epoch === before.epoch) report(5, `${given} was forgotten without a new epoch`);
  }

  function own(name: string, session: string): void {
    const owner = owners.get(name);
    if (owner !== undefined && owner !== session) report(9, `${name} of ${owner} was handed to ${session}`);
    owners.set(name, session);
  }

  function warmWritten(sandbox: WarmSandbox): void {
    warm.set(sandbox.name, sandbox);
    madeAhead.add(sandbox.name);
    if (sandbox.state === "claimed") own(sandbox.name, `${sandbox.userId}#${sandbox.sessionKey}`);
  }

  function launched(process: MemoryProcess): Agent {
    const { taskId, turn } = turnOf(process);
    const agent: Agent = { process, taskId, turn, ended: false };
    agents.push(agent);
    const task = tasks.get(taskId);
    const key = keyOf({ id: taskId, turn });
    if (over.has(key)) report(3, `${key} was launched after it had ended`);
    else if (task?.turn !== turn) report(6, `${key} was launched; the task is at turn ${task?.turn}`);
    for (const kind of ["deadline", "inactivity"]) {
      if (!armed.has(`${kind} ${key}`)) report(4, `${key} was launched before its ${kind} timer was armed`);
    }
    if (task) own(process.sandbox, `${task.userId}#${task.sessionKey}`);
    return agent;
  }

  /** Called before the removal: only a process that ends a turn may remove its sandbox. */
  function removing(name: string): void {
    evidence.removing(name);
    for (const { process, taskId, turn, ended } of living()) {
      const task = tasks.get(taskId);
      if (process.sandbox !== name || ended || task?.turn !== turn) continue;
      if (task.state.status === "running") report(6, `${name} was removed under ${keyOf(task)}, which runs`);
    }
  }

  /**
   * Called before a sweep; the returned function is called after it. It may have killed its own turn, and no other
   * running one.
   */
  function sweeping(sandbox: string, runDir: string): () => void {
    const others = living().filter(({ process }) => process.sandbox === sandbox && process.runDir !== runDir);
    return () => {
      for (const { process, taskId, turn, ended } of others) {
        const task = tasks.get(taskId);
        if (process.alive || ended || task?.turn !== turn || task.state.status !== "running") continue;
        report(6, `${keyOf(task)}, which runs, was killed by the sweep of ${runDir}`);
      }
    };
  }

  function creating(name: string, tags: Readonly<Record<string, string>>): void {
    keepsSecrets("a tag", tags);
    if (gone.has(name)) report(7, `${name} came back`);
    if (tags.pool === "warm" && tags.user !== undefined) report(9, `${name} is made ahead for ${tags.user}`);
    const session = sessions.get(`${tags.user}#${tags.session}`);
    const isNamed = session !== undefined && epochOf(name) <= session.epoch;
    if (!isNamed && !madeAhead.has(name)) report(5, `${name} was created before the table named it`);
  }

  function keepsSecrets(where: string, what: unknown): void {
    const text = typeof what === "string" ? what : JSON.stringify(what);
    if (text.includes(canary)) report(10, `a secret is in ${where}`);
  }

  /** What can be checked by looking, after each step. */
  function look(): void {
    const names = new Set(world?.sandboxes().map(({ name }) => name));
    // A stopped sandbox still exists and may be resumed; a removed one may not.
    for (const name of alive) if (!names.has(name) && !world?.exists(name)) gone.add(name);
    for (const name of names) if (gone.has(name) && !alive.has(name)) report(7, `${name} came back`);
    alive = names;

    const perSession = new Map<string, string>();
    for (const { process, taskId, turn, ended } of living()) {
      if (ended) continue;
      const key = keyOf({ id: taskId, turn });
      const task = tasks.get(taskId);
      const session = `${task?.userId}#${task?.sessionKey}`;
      const other = perSession.get(session);
      if (other) report(1, `${key} and ${other} run at once in session ${session}`);
      perSession.set(session, key);
      if (over.get(key) === "proven")
        report(3, `${key} lives in ${process.sandbox} though its death was proven`);
    }
  }

  return {
    violations,
    tasks,
    sessions,
    warm,
    agents,
    evidence,
    report,
    warmWritten,
    taskWritten,
    sessionWritten,
    launched,
    removing,
    sweeping,
    creating,
    keepsSecrets,
    look,
    /** A sandbox for no session is about to be created. */
    named: (name: string) => void madeAhead.add(name),
    /**
     * Called after each create: of the sandboxes that a record names there are never more than the cap. One that was
     * claimed for a session which has another by now is in flight: its claimer gives it up, or the audit if the claimer
     * died.
     */
    created() {
      const ahead = [...warm.values()].filter(({ state }) => state !== "claimed").map(({ name }) => name);
      const ofSessions = [...sessions.values()].map(({ sandbox }) => sandbox?.name);
      const named = new Set([...ahead, ...ofSessions]);
      const running = world?.sandboxes().filter(({ name }) => named.has(name)) ?? [];
      if (running.length > cap) report(1, `${running.length} sandboxes run; there may be ${cap}`);
    },
    armed({ kind, taskId, turn }: Timer) {
      armed.add(`${kind} ${keyOf({ id: taskId, turn })}`);
    },
    granted(taskId: string, turn: number) {
      const key = keyOf({ id: taskId, turn });
      grants.add(key);
      const status = tasks.get(taskId)?.state.status;
      if (closed.has(key)) report(2, `a push was granted to ${key}, which is being ended`);
      else if (tasks.get(taskId)?.turn === turn && status === "running") {
        report(2, `a push was granted to ${key} while a stop could still win`);
      }
    },
    refMoved(taskId: string, turn: number) {
      const key = keyOf({ id: taskId, turn });
      if (closed.has(key)) report(2, `${key} moved a ref after it was stopped`);
      if (!grants.has(key)) report(2, `${key} moved a ref that nobody granted it`);
    },
    lookAt(at: MemoryWorld) {
      world = at;
    },
  };
}

export function keyOf({ id, turn }: { id: string; turn: number }): string {
  return `${id}/${turn}`;
}

export function turnOf({ env }: MemoryProcess): { taskId: string; turn: number } {
  return JSON.parse(env.CONCIERGE_TURN ?? "{}") as { taskId: string; turn: number };
}

/** A turn whose worker has not used the session yet may lose it: it was written too late, and fails for it. */
function hasBegun(task: Task | undefined, turn: number): boolean {
  const begun: readonly Status[] = ["running", "finalizing"];
  return task?.turn === turn && begun.includes(task.state.status);
}

function epochOf(name: string): number {
  return Number(name.slice(name.lastIndexOf("-") + 1));
}
