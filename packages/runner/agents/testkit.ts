import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Activity, AgentEvent } from "../protocol.ts";
import type { AgentAdapter, AgentReader, AgentRun, AgentTurn } from "./adapter.ts";

const SECRET = "kit-secret-key";
const ID = "01a1e2fd-50cb-7f21-8c21-564078107178";
const KINDS: readonly AgentEvent["kind"][] = ["text", "tool_use", "tool_result", "result"];

/** A recorded stdout, line by line. */
export function recording(name: string): string[] {
  return readFileSync(join(import.meta.dirname, "recordings", `${name}.jsonl`), "utf8")
    .split("\n")
    .filter((line) => line !== "");
}

/** What a reader has understood of a whole stream, and what it was busy with after each line. */
export function readAll(reader: AgentReader, lines: readonly string[]) {
  const activities: Activity[] = [];
  const events = lines.flatMap((line) => {
    const said = reader.read(line);
    activities.push(reader.activity());
    return said;
  });
  return { events, activities, usage: reader.usage(), conversationId: reader.conversationId() };
}

export interface KitOptions {
  adapter: AgentAdapter;
  /** By the names of the files in `recordings`. A shell has none. */
  recordings: readonly string[];
}

/** What holds for every adapter. Its own tests say what its agent's stream means. */
export function describeAdapter(name: string, { adapter, recordings }: KitOptions): void {
  const turn = (over: Partial<AgentTurn> = {}): AgentTurn => {
    const { secret, baseUrl } = adapter.needs;
    const env = {
      ...(secret && { [secret.name]: SECRET }),
      ...(baseUrl && { [baseUrl]: "http://127.0.0.1:9/v1" }),
    };
    return { promptPath: "/run/prompt", env, home: "/nonexistent/home", isRoot: false, ...over };
  };

  describe(`the adapter of ${name}`, () => {
    test("names an exact version to install, or says why it can not be installed", () => {
      const { install } = adapter;
      if ("impossible" in install) return expect(install.impossible).not.toBe("");
      expect(install.version).toMatch(/^\d+\.\d+\.\d+$/);
      const { args } = install.command("/agents/x");
      expect(args.join(" ")).toContain(`@${install.version}`);
      expect(args.join(" ")).toContain("/agents/x");
    });

    test("names the header its key goes in, and whom it is for", () => {
      const { secret, hosts } = adapter.needs;
      if (secret !== undefined)
        expect([secret.header, hosts.length > 0]).toEqual([expect.stringMatching(/^[a-z-]+$/), true]);
    });

    test("starts its program, with the prompt as a file and the key in no argument and no file", () => {
      for (const run of [adapter.start(turn()), adapter.start(turn({ conversationId: ID }))]) {
        expect(run.file).toBe(adapter.program);
        expect(run.stdin === "prompt" || run.args.includes("/run/prompt")).toBe(true);
        expect(JSON.stringify([run.args, run.files ?? {}, run.env ?? {}])).not.toContain(SECRET);
        for (const path of Object.keys(run.files ?? {})) expect(path).toMatch(/^\//);
      }
    });

    if (recordings.length === 0) return;

    test("goes on with a conversation that it is given, and only then", () => {
      const of = (run: AgentRun) => JSON.stringify([run.args, run.env ?? {}]);
      expect(of(adapter.start(turn()))).not.toContain(ID);
      expect(of(adapter.start(turn({ conversationId: ID })))).toContain(ID);
    });

    test("knows nothing before the first line", () => {
      const reader = readerOf(adapter.start(turn()));
      expect([reader.activity(), reader.usage(), reader.conversationId()]).toEqual([
        "none",
        undefined,
        undefined,
      ]);
    });

    test.each(recordings)(
      "reads %s: whole events, one result at the most, nothing under way after it",
      (file) => {
        const { events, activities, usage } = readAll(readerOf(adapter.start(turn())), recording(file));
        for (const event of events) expectWhole(event);
        const results = events.filter(({ kind }) => kind === "result");
        expect(results.length).toBeLessThanOrEqual(1);
        if (results.length > 0) expect(activities.at(-1)).toBe("none");
        if (usage !== undefined) expectUsage(usage);
      },
    );

    test("never throws, and says nothing that is not whole, whatever it is given", () => {
      const lines = recordings.flatMap(recording);
      for (const garbage of [...noise, ...lines.flatMap(mutilated)]) {
        const reader = readerOf(adapter.start(turn()));
        for (const event of reader.read(garbage)) expectWhole(event);
        expect(["none", "model", "tool"]).toContain(reader.activity());
        const usage = reader.usage();
        if (usage !== undefined) expectUsage(usage);
        const id = reader.conversationId();
        if (id !== undefined) expect(id).toMatch(/^[A-Za-z0-9][\x21-\x7e]{0,199}$/);
      }
    });

    test("understands the same with garbage between the lines", () => {
      const file = recordings[0] ?? "";
      const mixed = recording(file).flatMap((line) => ["npm warn something", line, "{", ""]);
      const { events } = readAll(readerOf(adapter.start(turn())), mixed);
      expect(events).toEqual(readAll(readerOf(adapter.start(turn())), recording(file)).events);
    });
  });
}

function readerOf({ reader }: AgentRun): AgentReader {
  if (reader === undefined) throw new Error("an adapter with recordings has a reader");
  return reader;
}

function expectWhole(event: AgentEvent): void {
  expect(KINDS).toContain(event.kind);
  for (const [key, value] of Object.entries(event)) {
    expect([key, typeof value]).toEqual([key, key === "ok" ? "boolean" : "string"]);
  }
}

function expectUsage({
  inputTokens,
  outputTokens,
  costUsd,
}: {
  inputTokens: number;
  outputTokens: number;
  costUsd: number;
}): void {
  for (const count of [inputTokens, outputTokens])
    expect(Number.isSafeInteger(count) && count >= 0).toBe(true);
  expect(Number.isFinite(costUsd) && costUsd >= 0).toBe(true);
}

const noise = [
  "",
  " ",
  "null",
  "[]",
  "{}",
  "7",
  '"text"',
  "{",
  "\u0000",
  "undefined",
  '{"__proto__":{}}',
  "x".repeat(100_000),
];

/** Cut short, and with each of its values as something else. */
function mutilated(line: string): string[] {
  const cuts = [0.1, 0.5, 0.9, 0.99].map((part) => line.slice(0, Math.floor(line.length * part)));
  let values: string[];
  try {
    values = variants(JSON.parse(line), 4).map((value) => JSON.stringify(value));
  } catch {
    values = [];
  }
  return [...cuts, ...values];
}

function variants(value: unknown, depth: number): unknown[] {
  const others = [null, 7, -1, 1e308, "--x", [], {}, true, [null], { text: 7 }];
  if (depth === 0 || typeof value !== "object" || value === null) return others;
  if (Array.isArray(value))
    return [...others, ...value.slice(0, 2).flatMap((entry) => variants(entry, depth - 1).map((v) => [v]))];
  return Object.entries(value).flatMap(([key, entry]) =>
    variants(entry, depth - 1).map((variant) => ({ ...value, [key]: variant })),
  );
}
