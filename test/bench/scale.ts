/**
 * What a day costs and needs, from the counts of `verbs.ts`: the tables of docs/scale.md. `npm run scale` prints them;
 * `-- --update` writes them there.
 */
import { readFile, writeFile } from "node:fs/promises";
import { countRequests, type Requests } from "./verbs.ts";

/** Assumptions about a task; everything else is counted, or a price. */
const task = {
  turns: 3,
  turnSeconds: 60,
  batchesPerTurn: 20,
  beatsPerTurn: 20,
  /** One reader follows every turn to its end. */
  looksPerSecond: 1000 / 150,
  outputKbPerTurn: 20,
  vcpuBusyShare: 0.25,
  idleSeconds: 30 * 60,
  sandboxGb: 4,
};
/** The busiest minute relative to the mean one. */
const peak = 5;
const daySeconds = 86_400;
const days = [1_000, 100_000, 10_000_000];

/** How long one invocation occupies a function, in seconds, including the measured provider time. */
const held = { api: 0.02, coldProvision: 1.5, reusedProvision: 0.4, timer: 0.05, gb: 0.5 };

/** Dollars, us-east-1 and Vercel Pro, November 2026. */
export const price = {
  writeUnit: 0.625e-6,
  readUnit: 0.125e-6,
  queueRequest: 0.4e-6,
  lambdaRequest: 0.2e-6,
  lambdaGbSecond: 0.0000133334,
  logGb: 0.5,
  edgeRequest: 1e-6 + 0.6e-6,
  vcpuSecond: 0.128 / 3600,
  gbHour: 0.0212,
  creation: 0.6e-6,
};

/** The indexes' share of the write units, as `npm run bench -- --only units` measures it. */
const writesPerTaskWrite = 1.25;
/** Send, receive and delete. */
const requestsPerMessage = 3;
const logKbPerInvocation = 0.5;

interface PerTask extends Requests {
  /** From users and runners, through the edge. */
  http: number;
  invocations: number;
  lambdaSeconds: number;
  streamSeconds: number;
}

type Counts = Record<string, Requests>;

export function perTask(counts: Counts): PerTask {
  const later = task.turns - 1;
  const times: Record<string, number> = {
    start: 1,
    "provision, cold": 1,
    continue: later,
    "provision, reused": later,
    "a batch of output": task.turns * task.batchesPerTurn,
    "a beat": task.turns * task.beatsPerTurn,
    // Inactivity checks once a minute, the deadline once.
    "a timer that comes early": task.turns * 2,
    "an end, by the runner": task.turns,
    "what follows an end": task.turns,
    "read a task": task.turns * task.turnSeconds * task.looksPerSecond,
    "read its events, besides": task.turns * task.batchesPerTurn,
  };
  const sum = (what: keyof Requests) =>
    Object.entries(times).reduce((total, [verb, n]) => total + n * (counts[verb]?.[what] ?? Number.NaN), 0);
  const http = 1 + later + task.turns * (task.batchesPerTurn + task.beatsPerTurn + 2);
  const works = 2 * task.turns;
  const timers = 2 * task.turns;
  return {
    reads: sum("reads"),
    writes: sum("writes"),
    readUnits: sum("readUnits"),
    writeUnits: sum("writeUnits") * writesPerTaskWrite,
    messages: sum("messages"),
    calls: sum("calls"),
    http,
    invocations: http + works + timers,
    lambdaSeconds:
      http * held.api +
      held.coldProvision +
      later * held.reusedProvision +
      (works - task.turns + timers) * held.timer,
    streamSeconds: task.turns * task.turnSeconds,
  };
}

function money(per: PerTask): Record<string, number> {
  const liveHours = (task.turns * task.turnSeconds + task.idleSeconds) / 3600;
  const busySeconds = task.turns * task.turnSeconds * 2 * task.vcpuBusyShare;
  return {
    "sandbox: CPU while it works": busySeconds * price.vcpuSecond,
    "sandbox: memory while it works and is kept": liveHours * task.sandboxGb * price.gbHour + price.creation,
    "functions: readers' streams": per.streamSeconds * held.gb * price.lambdaGbSecond,
    "functions: all else":
      per.invocations * price.lambdaRequest + per.lambdaSeconds * held.gb * price.lambdaGbSecond,
    "table: writes": per.writeUnits * price.writeUnit,
    "table: reads": per.readUnits * price.readUnit,
    queues: per.messages * requestsPerMessage * price.queueRequest,
    "edge: requests and their limit": per.http * price.edgeRequest,
    logs: ((per.invocations * logKbPerInvocation) / 1e6) * price.logGb,
  };
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  return [line(head), `|${head.map(() => "---|").join("")}`, ...rows.map(line)].join("\n");
}

const number = (value: number) =>
  value.toLocaleString("en-US", { maximumFractionDigits: value < 10 ? 1 : 0 });
const dollars = (value: number) => `$${value < 1 ? value.toPrecision(2) : number(value)}`;

export function scaleTables(counts: Counts): Record<string, string> {
  const per = perTask(counts);
  const costs = money(per);
  const total = Object.values(costs).reduce((sum, part) => sum + part, 0);
  const perSecond = (tasks: number, each: number) => number((tasks * each * peak) / daySeconds);
  const live = task.turns * task.turnSeconds + task.idleSeconds;
  const row = (what: string, figure: (tasks: number) => string) => [what, ...days.map(figure)];
  return {
    verbs: table(
      ["verb", "reads", "writes", "read units", "write units", "messages", "provider calls"],
      Object.entries(counts).map(([verb, { reads, writes, readUnits, writeUnits, messages, calls }]) => [
        verb,
        ...[reads, writes, readUnits, writeUnits, messages, calls].map(number),
      ]),
    ),
    days: table(
      ["in the busiest minute", ...days.map((tasks) => `${number(tasks)} tasks a day`)],
      [
        row("HTTP requests a second", (tasks) => perSecond(tasks, per.http)),
        row("reads of the table a second", (tasks) => perSecond(tasks, per.reads)),
        row("writes of the table a second", (tasks) => perSecond(tasks, per.writes)),
        row("messages a second", (tasks) => perSecond(tasks, per.messages)),
        row("provider calls a second", (tasks) => perSecond(tasks, per.calls)),
        row("sandboxes made a minute", (tasks) => number((tasks * peak * 60) / daySeconds)),
        row("sandboxes alive, working or kept", (tasks) => perSecond(tasks, live)),
        row("turns that run", (tasks) => perSecond(tasks, task.turns * task.turnSeconds)),
        row("functions held by readers' streams", (tasks) => perSecond(tasks, per.streamSeconds)),
        row("functions held by all else", (tasks) => perSecond(tasks, per.lambdaSeconds)),
        row("dollars a day", (tasks) => dollars(tasks * total)),
      ],
    ),
    money: table(
      ["part", "a task", "share"],
      [...Object.entries(costs), ["together", total] as const].map(([part, cost]) => [
        part,
        dollars(cost),
        `${Math.round((100 * cost) / total)} %`,
      ]),
    ),
  };
}

export const scaleFile = new URL("../../docs/scale.md", import.meta.url);

/** The document with its current tables: each follows a comment with its name. */
export function withTables(document: string, tables: Record<string, string>): string {
  return Object.entries(tables).reduce((text, [name, rows]) => {
    const place = new RegExp(`(<!-- table: ${name} -->\n\n)(?:\\|.*\n)*`);
    if (!place.test(text)) throw new Error(`docs/scale.md has no place for the table "${name}"`);
    return text.replace(place, (_all, mark: string) => `${mark}${rows}\n`);
  }, document);
}

if (import.meta.main) {
  const tables = scaleTables(await countRequests());
  const document = await readFile(scaleFile, "utf8");
  if (process.argv.includes("--update")) await writeFile(scaleFile, withTables(document, tables));
  else console.log(Object.values(tables).join("\n\n"));
}
