import type { EndingDeps } from "@concierge/core";
import type { RunnerEnd } from "@concierge/core/task/decide";
import { type PostKind, turnMark } from "@concierge/protocol";
import type { Request } from "./edge.ts";
import type { Evidence } from "./evidence.ts";
import type { Random } from "./random.ts";
import type { SimulatedRemote } from "./remote.ts";
import { createActor, type Scheduler } from "./scheduler.ts";
import type { Verbs } from "./verbs.ts";
import { type Agent, turnOf } from "./watch.ts";

/** What the agent of one turn does, and how well its runner keeps the limits. */
export interface Script {
  batches: number;
  everyMs: number;
  exitCode: number;
  /** Whether it changes the repository. */
  commits: boolean;
  /**
   * What it does after its last output: end, fall silent, work on forever, or work on forever while none of its
   * runner's posts arrive.
   */
  afterwards: "end" | "silence" | "busy" | "cut off";
  /** The runner ends its agent at the deadline by itself. */
  keepsDeadline: boolean;
  /** A process that the agent started leaves its group and survives everything the runner kills. */
  escapes: boolean;
  /** The runner is killed or frozen while its agent lives on, or is killed during its push. */
  fate?: { kind: "killed" | "stands still"; afterMs: number } | { kind: "killed in its push" } | undefined;
}

/** If turns may be long, mostly the limits on silence end those that do not end by themselves. */
export function drawScript(random: Random, { isLong, dies }: { isLong: boolean; dies: number }): Script {
  return {
    batches: random.between(0, 5),
    everyMs: random.pick([200, 2_000, 8_000, 15_000]),
    exitCode: random.chance(0.8) ? 0 : 1,
    commits: random.chance(0.8),
    afterwards: random.chance(isLong ? 0.7 : 0.85)
      ? "end"
      : random.pick(["silence", "busy", "cut off"] as const),
    keepsDeadline: random.chance(0.5),
    escapes: random.chance(0.3),
    ...(random.chance(dies) && { fate: drawFate(random, isLong) }),
  };
}

function drawFate(random: Random, isLong: boolean): Script["fate"] {
  const kind = random.pick(["killed", "stands still", "killed in its push", "killed in its push"] as const);
  if (kind === "killed in its push") return { kind };
  return { kind, afterMs: random.between(0, isLong ? 500_000 : 60_000) };
}

export interface RunnerWorld {
  scheduler: Scheduler;
  remote: SimulatedRemote;
  verbs: Verbs;
  request: Request;
  evidence: Pick<Evidence, "runnerLost" | "stopped">;
  /** How long the remote takes to move a ref. */
  remoteMs(): number;
  onAcknowledged(taskId: string, turn: number, texts: readonly string[]): void;
}

interface Told {
  taskId: string;
  turn: number;
  maxDurationMs: number;
  repo?: { branch: string; push: boolean };
}

const retryMs = 1_000;
const beatMs = 10_000;

/**
 * A runner like packages/runner: one post at a time, in order, repeated until it is accepted; a push only after `go`;
 * the end last. A killed runner takes no further step; only a push that it sent goes on.
 */
export async function runAgent(world: RunnerWorld, agent: Agent, script: Script): Promise<void> {
  const { scheduler, verbs } = world;
  const { process } = agent;
  const told = turnOf(process) as Told;
  const { taskId, turn } = told;
  const which = { taskId, turn };
  const actor = createActor(`runner ${taskId}/${turn}`, () => process.alive);
  const mark = turnMark(which);
  const launchedAt = scheduler.now();
  let lostAt: number | undefined;
  let isCutOff = false;
  let isOver = false;
  const state = {
    // Written every few seconds, while the runner takes steps.
    get at() {
      return lostAt ?? scheduler.now();
    },
    lastOutputAt: undefined as number | undefined,
    undelivered: false,
    activity: "none" as "none" | "tool",
  };
  process.state = state;
  const isOverdue = () => script.keepsDeadline && scheduler.now() - launchedAt >= told.maxDurationMs;
  const sleep = (ms: number) => scheduler.sleep(actor, "waits", ms);
  const { fate } = script;
  if (fate && "afterMs" in fate)
    scheduler.after(fate.afterMs, `the runner of ${mark}: ${fate.kind}`, meetFate);

  function meetFate(): void {
    if (!process.alive || isOver) return;
    lostAt = scheduler.now();
    if (fate?.kind !== "stands still") process.hasLostRunner = true;
    actor.crash();
    world.evidence.runnerLost(mark);
  }

  /** Posts until it is accepted; false if Concierge says stop. */
  async function say(
    kind: PostKind,
    verb: (deps: EndingDeps) => Promise<object>,
    label: string = kind,
  ): Promise<boolean> {
    for (;;) {
      const { answer, isOurs } = await world.request(actor, { kind, mark, label }, verb);
      if (answer.kind === "granted") return true;
      if (answer.kind === "action" && answer.action === "stop") {
        world.evidence.stopped(mark, isOurs);
        return false;
      }
      if (answer.kind === "action" && answer.action !== "wait") return true;
      await sleep(retryMs);
    }
  }

  const beat = (activity: "none" | "tool") =>
    say("beat", async (deps) => ({ action: await verbs.takeBeat(deps, which, activity) }));

  /** Waits, with a beat in every silence; false if it was told to stop. */
  async function work(ms: number, activity: "none" | "tool"): Promise<boolean> {
    state.activity = activity;
    for (let left = ms; left > 0 && !isOverdue(); left -= beatMs) {
      await sleep(Math.min(left, beatMs));
      if (left > beatMs && !isCutOff && !(await beat(activity))) return false;
    }
    return true;
  }

  async function speak(seq: number): Promise<boolean> {
    const texts = [`${taskId}/${turn}/${seq}a`, `${taskId}/${turn}/${seq}b`];
    const at = scheduler.now();
    const chunks = texts.map((text) => ({ stream: "stdout" as const, at, data: Buffer.from(text) }));
    Object.assign(state, { lastOutputAt: at, undelivered: true });
    const output = async (deps: EndingDeps) => ({
      action: await verbs.takeOutput(deps, which, { seq, chunks }),
    });
    const taken = await say("output", output, `output ${seq}`);
    state.undelivered = false;
    if (taken) world.onAcknowledged(taskId, turn, texts);
    return taken;
  }

  async function push(commit: string, branch: string): Promise<boolean | undefined> {
    const from = world.remote.head(branch);
    const granted = await say("finalize", (deps) =>
      verbs.grantPush(deps, which, { commit, branch, exitCode: 0, text: "" }),
    );
    if (!granted) return undefined;
    if (fate?.kind === "killed in its push") meetFate();
    return await new Promise((resolve) => {
      const update = () => resolve(world.remote.update({ branch, from, commit, taskId, turn }));
      void scheduler
        .sleep(actor, "sends its push", world.remoteMs())
        .then(() =>
          scheduler.after(world.remoteMs(), `the remote takes the push of ${taskId}/${turn}`, update),
        );
    });
  }

  /** Returns how it ended; undefined if it was told to stop. */
  async function live(): Promise<RunnerEnd | undefined> {
    if (told.repo) {
      const nonce = `nonce of ${process.sandbox} ${taskId}/${turn}`;
      if (!(await say("clone", (deps) => verbs.grantClone(deps, which, nonce)))) return undefined;
    }
    let lastSeq = 0;
    while (lastSeq < script.batches && !isOverdue()) {
      if (!(await work(script.everyMs, "tool"))) return undefined;
      if (!(await speak(lastSeq + 1))) return undefined;
      lastSeq += 1;
    }
    const end = { lastSeq, signal: null, outputCutBytes: 0, text: "" };
    while (script.afterwards !== "end" && !isOverdue()) {
      isCutOff = script.afterwards === "cut off";
      if (!(await work(60_000, script.afterwards === "silence" ? "none" : "tool"))) return undefined;
    }
    if (isOverdue()) return { ...end, exitCode: null, reason: "deadline" };
    agent.ended = true;
    if (!told.repo?.push || !script.commits || script.exitCode !== 0) {
      return { ...end, exitCode: script.exitCode, reason: "exited" };
    }
    const commit = `commit of ${taskId}/${turn}`;
    const { branch } = told.repo;
    const pushed = await push(commit, branch);
    return pushed === undefined
      ? undefined
      : { ...end, exitCode: 0, reason: "exited", commit, branch, pushed };
  }

  const end = await live();
  if (end) {
    await say("end", async (deps) => ({ action: await verbs.reportEnd(deps, which, end) }));
    if (end.reason !== "deadline") agent.ended = true;
  }
  isOver = true;
  if (!script.escapes) process.alive = false;
}
