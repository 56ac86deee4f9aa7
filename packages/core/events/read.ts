import type { Deps } from "../deps.ts";
import type { RecordPosition } from "../ports.ts";
import { isTerminal, type Phase, type Task } from "../task/schema.ts";
import { type Cursor, formatCursor } from "./cursor.ts";
import type { EventRecord, TaskEvent } from "./schema.ts";

/** One page of events after a cursor, and the cursor of the next page. */
export async function readEvents(
  { store }: Deps,
  task: Task,
  after: Cursor,
): Promise<{ items: TaskEvent[]; cursor: string; more: boolean }> {
  const { records, more } = await store.readRecords(task.id, after.record, task.turn);
  const committed = records.filter((record) => isCommitted(task, record));
  const { items, cursor } = mergeEvents(task, committed, after, more);
  return { items, cursor: formatCursor(cursor), more };
}

/** The output of one turn or of all, page by page. */
export async function* readOutput({ store }: Deps, task: Task, turn?: number): AsyncGenerator<Uint8Array> {
  let from: RecordPosition = { turn: turn ?? 1, kind: "output", seq: 1 };
  let last: EventRecord | undefined;
  for (;;) {
    const { records, more } = await store.readRecords(task.id, from, turn ?? task.turn);
    const fresh = last ? records.slice(1) : records;
    for (const record of fresh) {
      if (record.kind !== "output" || !isCommitted(task, record)) continue;
      for (const chunk of record.chunks) if ("data" in chunk) yield chunk.data;
    }
    last = records.at(-1);
    if (!more || !last) return;
    from = { turn: last.turn, kind: last.kind, seq: last.seq };
  }
}

function isCommitted(task: Task, record: EventRecord): boolean {
  if (record.kind !== "output") return true;
  const past = task.past.find(({ turn }) => turn === record.turn);
  return record.seq <= (past ?? task).outputSeq;
}

/**
 * Merges phases, records and notices into one list, ordered by time within a turn. The phase that ends a turn comes
 * after all of its output, so it is held back while more records are to come.
 */
export function mergeEvents(
  task: Task,
  records: readonly EventRecord[],
  after: Cursor,
  more: boolean,
): { items: TaskEvent[]; cursor: Cursor } {
  const firstPhase = task.phaseCount - task.phases.length;
  const phases = task.phases.slice(Math.max(after.phases - firstPhase, 0));
  const cursor = { ...after, phases: task.phaseCount - phases.length };
  const items: TaskEvent[] = [];
  const place = (event: EventBody) => items.push({ cursor: formatCursor(cursor), ...event });

  const placePhase = (phase: Phase) => {
    if (isTerminal(phase.status)) placeNotices(phase.turn);
    cursor.phases += 1;
    place(statusEvent(phase));
  };
  const placeNotices = (upToTurn: number) => {
    const { noticesDropped = 0 } = task;
    cursor.notices = Math.max(cursor.notices, noticesDropped);
    for (const notice of task.notices.slice(cursor.notices - noticesDropped)) {
      if (notice.turn > upToTurn) return;
      cursor.notices += 1;
      const { code, detail, turn } = notice;
      place({ at: iso(notice.at), turn, type: "notice", code, detail });
    }
  };

  for (const record of records) {
    while (phases[0] && comesBefore(phases[0], record)) placePhase(shift(phases));
    const isSame = samePosition(after.record, record);
    if (isSame && after.chunks >= chunksOf(record)) continue;
    cursor.record = { turn: record.turn, kind: record.kind, seq: record.seq };
    cursor.chunks = isSame ? after.chunks : 0;
    for (const event of eventsOf(record).slice(cursor.chunks)) {
      cursor.chunks += 1;
      place(event);
    }
  }
  const lastTurn = records.at(-1)?.turn ?? after.record.turn;
  while (phases[0] && !(more && isTerminal(phases[0].status) && phases[0].turn >= lastTurn))
    placePhase(shift(phases));
  return { items, cursor };
}

type EventBody = TaskEvent extends infer E ? (E extends TaskEvent ? Omit<E, "cursor"> : never) : never;

function comesBefore(phase: Phase, record: EventRecord): boolean {
  if (phase.turn !== record.turn) return phase.turn < record.turn;
  if (isTerminal(phase.status)) return false;
  return record.kind === "output" || phase.at <= record.at;
}

function statusEvent({ at, turn, status, note }: Phase): EventBody {
  return { at: iso(at), turn, type: "status", status, ...(note !== undefined && { note }) };
}

function eventsOf(record: EventRecord): EventBody[] {
  if (record.kind === "progress") {
    const { turn, step, detail } = record;
    return [{ at: iso(record.at), turn, type: "progress", step, detail }];
  }
  return record.chunks.map((chunk) => {
    const common = { at: iso(chunk.at), turn: record.turn };
    if ("agent" in chunk) return { ...common, type: "agent", agent: chunk.agent };
    const { stream, data } = chunk;
    const text = Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("utf8");
    return { ...common, type: "output", stream, text };
  });
}

function chunksOf(record: EventRecord): number {
  return record.kind === "output" ? record.chunks.length : 1;
}

function samePosition(a: RecordPosition, b: RecordPosition): boolean {
  return a.turn === b.turn && a.kind === b.kind && a.seq === b.seq;
}

function shift(phases: Phase[]): Phase {
  const [first] = phases.splice(0, 1);
  if (!first) throw new Error("no phase is left");
  return first;
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
