import { readFileSync } from "node:fs";
import { join } from "node:path";
import {
  type Activity,
  type AgentEvent,
  type AgentUsage,
  activities as allActivities,
  conversationIdPattern,
} from "@concierge/protocol";
import { describe, expect, test } from "vitest";
import type { AgentAdapter, AgentReader, AgentRun, AgentTurn } from "../agents/adapter.ts";

const fakeKey = "kit-secret-key";
const resumedId = "01a1e2fd-50cb-7f21-8c21-564078107178";
const eventKinds: readonly AgentEvent["kind"][] = ["text", "tool_use", "tool_result", "result"];

/** The lines of a recorded stdout. */
export function recording(name: string): string[] {
  return readFileSync(join(import.meta.dirname, "recordings", `${name}.jsonl`), "utf8")
    .split("\n")
    .filter((line) => line !== "");
}

/** Everything a reader understood of a stream, with its activity after each line. */
export function readAll(reader: AgentReader, lines: readonly string[]) {
  const activities: Activity[] = [];
  const events = lines.flatMap((line) => {
    const read = reader.read(line);
    activities.push(reader.activity());
    return read;
  });
  return { events, activities, usage: reader.usage(), conversationId: reader.conversationId() };
}

export interface KitOptions {
  adapter: AgentAdapter;
  /** Names of files in `recordings`. */
  recordings: readonly string[];
}

/** Tests that every adapter must pass. Its own tests cover the meaning of its agent's stream. */
export function describeAdapter(name: string, { adapter, recordings }: KitOptions): void {
  const turn = (overrides: Partial<AgentTurn> = {}): AgentTurn => {
    const { secret, baseUrl } = adapter.needs;
    const env = {
      ...(secret && { [secret.name]: fakeKey }),
      ...(baseUrl && { [baseUrl.name]: "http://127.0.0.1:9/v1" }),
    };
    return { promptPath: "/run/prompt", env, home: "/nonexistent/home", isRoot: false, ...overrides };
  };

  describe(`the ${name} adapter`, () => {
    test("names an exact version to install, or says why it cannot be installed", () => {
      const { install } = adapter;
      if ("impossible" in install) return expect(install.impossible).not.toBe("");
      expect(install.version).toMatch(/^\d+\.\d+\.\d+$/);
      const { args } = install.command("/agents/x");
      expect(args.join(" ")).toContain(`@${install.version}`);
      expect(args.join(" ")).toContain("/agents/x");
    });

    test("names the header and the host for its key", () => {
      const { secret, hosts } = adapter.needs;
      if (secret !== undefined)
        expect([secret.header, hosts.length > 0]).toEqual([expect.stringMatching(/^[a-z-]+$/), true]);
    });

    test("starts its program with the prompt as a file, and puts the key in no argument and no file", () => {
      for (const run of [adapter.start(turn()), adapter.start(turn({ conversationId: resumedId }))]) {
        expect(run.file).toBe(adapter.program);
        expect(run.stdin === "prompt" || run.args.includes("/run/prompt")).toBe(true);
        expect(JSON.stringify([run.args, run.files ?? {}, run.env ?? {}])).not.toContain(fakeKey);
        for (const path of Object.keys(run.files ?? {})) expect(path).toMatch(/^\//);
      }
    });

    if (recordings.length === 0) return;

    test("resumes a conversation only if it gets one", () => {
      const of = (run: AgentRun) => JSON.stringify([run.args, run.env ?? {}]);
      expect(of(adapter.start(turn()))).not.toContain(resumedId);
      expect(of(adapter.start(turn({ conversationId: resumedId })))).toContain(resumedId);
    });

    test("reports nothing before the first line", () => {
      const reader = readerOf(adapter.start(turn()));
      expect([reader.activity(), reader.usage(), reader.conversationId()]).toEqual([
        "none",
        undefined,
        undefined,
      ]);
    });

    test.each(recordings)("reads %s: valid events, at most one result, and no activity after it", (file) => {
      const { events, activities, usage } = readAll(readerOf(adapter.start(turn())), recording(file));
      for (const event of events) expectValid(event);
      const results = events.filter(({ kind }) => kind === "result");
      expect(results.length).toBeLessThanOrEqual(1);
      if (results.length > 0) expect(activities.at(-1)).toBe("none");
      if (usage !== undefined) expectUsage(usage);
    });

    test("never throws on garbage and returns only valid events", () => {
      const lines = recordings.flatMap(recording);
      for (const garbage of [...noise, ...lines.flatMap(corrupted)]) {
        const reader = readerOf(adapter.start(turn()));
        for (const event of reader.read(garbage)) expectValid(event);
        expect(allActivities).toContain(reader.activity());
        const usage = reader.usage();
        if (usage !== undefined) expectUsage(usage);
        const id = reader.conversationId();
        if (id !== undefined) expect(id).toMatch(conversationIdPattern);
      }
    });

    test("ignores garbage between the lines", () => {
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

function expectValid(event: AgentEvent): void {
  expect(eventKinds).toContain(event.kind);
  for (const [key, value] of Object.entries(event)) {
    expect([key, typeof value]).toEqual([key, key === "ok" ? "boolean" : "string"]);
  }
}

function expectUsage({ inputTokens, outputTokens, costUsd }: AgentUsage): void {
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

/** The line cut short, and with each of its values replaced. */
function corrupted(line: string): string[] {
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
  const replacements = [null, 7, -1, 1e308, "--x", [], {}, true, [null], { text: 7 }];
  if (depth === 0 || typeof value !== "object" || value === null) return replacements;
  if (Array.isArray(value))
    return [
      ...replacements,
      ...value.slice(0, 2).flatMap((entry) => variants(entry, depth - 1).map((v) => [v])),
    ];
  return Object.entries(value).flatMap(([key, entry]) =>
    variants(entry, depth - 1).map((variant) => ({ ...value, [key]: variant })),
  );
}
