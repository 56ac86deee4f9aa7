import { AppError, isTerminal, type StartRequest, type Task } from "@concierge/core";
import { parseCursor } from "@concierge/core/events/cursor";
import { readEvents } from "@concierge/core/events/read";
import type { Weather } from "./faults.ts";
import type { Random } from "./random.ts";
import { type Actor, createActor, type Scheduler } from "./scheduler.ts";
import { canary, type Watch } from "./watch.ts";
import type { World } from "./world.ts";

export interface HistoryOptions {
  scheduler: Scheduler;
  random: Random;
  world: World;
  watch: Watch;
  weather: () => Weather;
  /** Turns may be so long that only the limits on silence end them in time. */
  isLong: boolean;
}

const users = ["ada", "bo"] as const;
/** Longer than a run. */
const longMs = 60 * 60_000;
const sessionKeys = ["default", "other"] as const;

/** Users that start, stop and continue at random, with limited patience. */
export function liveThrough(options: HistoryOptions, requests: number): void {
  goAbout(options, requests);
  void loseSandboxes(options);
}

/** The same users with more requests. */
export function goAbout(options: HistoryOptions, requests: number): void {
  for (const user of users) void use(options, user, requests);
}

async function use(options: HistoryOptions, user: string, requests: number): Promise<void> {
  const { scheduler, random, world, watch } = options;
  const actor = createActor(user);
  const mine: string[] = [];
  const refused: Continuation[] = [];
  for (let i = 0; i < requests; i++) {
    await scheduler.sleep(actor, "thinks", random.pick([10, 500, 5_000, 20_000, 60_000]));
    const id = mine.length > 0 ? random.pick(mine.slice(-3)) : undefined;
    const wish = id === undefined ? 0 : random.next();
    if (id === undefined || wish < 0.35) {
      const request = drawRequest(options);
      const key = random.chance(0.5) ? `${user} ${scheduler.now()}` : undefined;
      const tries = key ? 3 : 1;
      for (let attempt = 0; attempt < tries; attempt++) {
        const answer = await world.call(actor, "start", (deps) =>
          world.verbs.start(deps, user, request, key),
        );
        if (answer?.ok && !mine.includes(answer.value.id)) {
          mine.push(answer.value.id);
          void read(options, user, answer.value.id);
        }
        if (answer) break;
      }
    } else if (wish < 0.55) {
      const answer = await world.call(actor, "stop", (deps) => world.verbs.stop(deps, user, id));
      if (answer?.ok) checkStopped(watch, answer.value);
    } else if (wish < 0.62) {
      const name = { userId: user, sessionKey: random.pick(sessionKeys) };
      await (random.chance(0.7)
        ? world.call(actor, "prepare", (deps) => world.verbs.requestSession(deps, name))
        : world.call(actor, "delete", (deps) => world.verbs.deleteSession(deps, name)));
    } else if (wish < 0.95) {
      const before = refused.length > 0 && random.chance(0.5) ? refused.shift() : undefined;
      const wanted = before ?? { id, user, number: i, hasKey: random.chance(0.6) };
      if (!(await goOn(options, actor, wanted)) && wanted.hasKey) refused.push(wanted);
    } else {
      await meddle(options, user);
    }
  }
}

/** A request to continue a task. With a key, its client may repeat it, even much later. */
interface Continuation {
  id: string;
  user: string;
  number: number;
  hasKey: boolean;
}

/** Continues a task, repeatedly until there is a response. The accepted turn has the prompt that was sent. */
async function goOn(
  { scheduler, random, world, watch }: HistoryOptions,
  actor: Actor,
  { id, user, number, hasKey }: Continuation,
): Promise<boolean> {
  const request = { prompt: `go on ${user} ${number}`, env: { SECRET: `${canary}${user}-${number}` } };
  const key = hasKey ? `${user} ${number}` : undefined;
  for (let attempt = 0; attempt < (hasKey ? 3 : 1); attempt++) {
    const answer = await world.call(actor, "continue", (deps) =>
      world.verbs.continueTask(deps, user, id, request, key),
    );
    if (answer?.ok) {
      await checkContinued(world, watch, answer.value, request.prompt);
      return true;
    }
    if (answer) return false;
    await scheduler.sleep(actor, "asks again later", random.pick([500, 5_000, 20_000]));
  }
  return false;
}

async function checkContinued(world: World, watch: Watch, task: Task, prompt: string): Promise<void> {
  const turns = [...task.past, { turn: task.turn, key: task.turnKey }];
  const prompts = turns.map(({ turn, key }) => world.rawStore.getPrompt(task.id, { turn, key }));
  // The response may be older than the task: a short prompt is in it, and has its own item later.
  const current = await world.rawStore.getTask(task.id);
  const known = [task.prompt, current?.prompt, ...(await Promise.all(prompts))];
  if (!known.includes(prompt)) watch.report(12, `"${prompt}" was taken, and no turn of ${task.id} has it`);
}

/** Another user's task does not exist. */
async function meddle({ random, world, watch }: HistoryOptions, user: string): Promise<void> {
  const others = [...watch.tasks.values()].filter((task) => task.userId !== user);
  if (others.length === 0) return;
  const { id } = random.pick(others);
  const actor = createActor(`${user} as another`);
  const answer = await world.call(actor, "stop another's", (deps) => world.verbs.stop(deps, user, id));
  if (answer?.ok) watch.report(9, `${user} could stop ${id}, which is another's`);
}

/** What a stop answers is true at that moment. */
function checkStopped(watch: Watch, task: Task): void {
  if (!isTerminal(task.state.status) || task.phases.at(-1)?.by === "runner") return;
  const left = watch.agents.some(
    ({ process, taskId, turn }) => process.alive && taskId === task.id && turn === task.turn,
  );
  if (left) watch.report(3, `${task.id}/${task.turn} was answered as ${task.state.status} while it lives`);
}

/** Reads a task's events during the whole run from its last cursor, sometimes from one in between. */
async function read(
  { scheduler, random, world, watch }: HistoryOptions,
  user: string,
  id: string,
): Promise<void> {
  const actor = createActor(`reader of ${id}`);
  const seen: string[] = [];
  let cursor = "";
  let isQuiet = false;
  for (;;) {
    await scheduler.sleep(
      actor,
      "reads later",
      random.pick(isQuiet ? [60_000, 180_000] : [500, 10_000, 45_000]),
    );
    const answer = await world.call(actor, "events", async (deps) => {
      const task = await deps.store.getTask(id);
      return task?.userId === user ? await readEvents(deps, task, parseCursor(cursor)) : undefined;
    });
    if (!answer?.ok) {
      if (answer && answer.error instanceof AppError) watch.report(8, `the reader of ${id} was refused`);
      continue;
    }
    const items = answer.value?.items ?? [];
    isQuiet = items.length === 0;
    const cut = random.chance(0.3) ? random.between(0, items.length) : items.length;
    const taken = items.slice(0, cut);
    cursor = (cut === items.length ? answer.value?.cursor : taken.at(-1)?.cursor) ?? cursor;
    for (const item of taken) {
      watch.keepsSecrets("an event", item);
      if (item.type !== "output") continue;
      const before = seen.at(-1);
      if (before !== undefined && !follows(before, item.text)) {
        watch.report(8, `a reader saw ${item.text} after ${before}`);
      }
      seen.push(item.text);
    }
  }
}

/** `<task>/<turn>/<seq>a` and `…b`: the next chunk is the other half, the next batch, or the first of a later turn. */
function follows(before: string, after: string): boolean {
  const [a, b] = [placeOf(before), placeOf(after)];
  if (a.turn !== b.turn) return b.turn > a.turn && b.place === 2;
  return b.place === a.place + 1;
}

function placeOf(text: string): { turn: number; place: number } {
  const [, turn, chunk = ""] = text.split("/");
  return { turn: Number(turn), place: Number.parseInt(chunk, 10) * 2 + (chunk.endsWith("b") ? 1 : 0) };
}

async function loseSandboxes({ scheduler, random, world, weather }: HistoryOptions): Promise<void> {
  const actor = createActor("the provider's hardware");
  for (;;) {
    await scheduler.sleep(actor, "may fail", 20_000);
    const names = world.sandboxes.sandboxes().map(({ name }) => name);
    if (names.length > 0 && random.chance(weather().sandboxLost)) {
      const name = random.pick(names);
      if (random.chance(0.5)) world.sandboxes.lose(name);
      else world.sandboxes.stop(name);
    }
  }
}

function drawRequest({ random, isLong }: HistoryOptions): StartRequest {
  const secret = `${canary}${random.between(0, 1e9)}`;
  return {
    prompt: "work",
    sessionKey: random.pick(sessionKeys),
    keepAlive: random.chance(0.7),
    env: { SECRET: secret },
    limits: {
      maxDurationMs: isLong ? longMs : random.pick([30_000, 90_000, 150_000]),
      inactivityMs: random.pick([15_000, 40_000]),
    },
    ...(random.chance(0.4) && { webhook: { url: "https://hooks.example/ends" } }),
    ...(random.chance(0.6) && { repo: { url: "https://git.example/repo.git", token: `${secret}-token` } }),
  };
}
