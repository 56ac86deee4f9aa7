import { closeSync, fstatSync, openSync, readdirSync, readSync } from "node:fs";
import { join } from "node:path";
import { countOf, fieldsOf, parseFields, textOf } from "./json.ts";
import type { Tokens } from "./prices.ts";

const relevantTypes = ['"turn_context"', '"token_usage_record"', '"token_count"'];
const readBytes = 256 * 1024;
/** Relevant lines are shorter. */
const lineMaxBytes = 1024 * 1024;

/**
 * Codex's log file of a thread. Unlike stdout it names the model and has the usage after each call, so a turn's usage can
 * be separated from earlier turns, and a budget is enforced within a turn. An unreadable file only means less knowledge.
 */
export interface Rollout {
  /** Sets the thread once its id is known. */
  follow(threadId: string): void;
  /** The usage of all turns of the thread so far. */
  tokens(): Tokens | undefined;
  model(): string | undefined;
}

export function createRollout(directory: string, threadId: string | undefined): Rollout {
  let thread = threadId;
  let path: string | undefined;
  let offset = 0;
  let rest = "";
  let tokens: Tokens | undefined;
  let model: string | undefined;

  function update(): void {
    try {
      path ??= thread === undefined ? undefined : find(directory, thread);
      if (path !== undefined) readOn(path);
    } catch {
      // Missing or unreadable.
    }
  }

  function readOn(file: string): void {
    const fd = openSync(file, "r");
    try {
      const end = fstatSync(fd).size;
      const buffer = Buffer.allocUnsafe(readBytes);
      while (offset < end) {
        const read = readSync(fd, buffer, 0, Math.min(readBytes, end - offset), offset);
        if (read === 0) return;
        offset += read;
        // latin1 is enough: only ASCII fields are read.
        const lines = (rest + buffer.toString("latin1", 0, read)).split("\n");
        rest = (lines.pop() ?? "").slice(-lineMaxBytes);
        for (const line of lines) take(line);
      }
    } finally {
      closeSync(fd);
    }
  }

  function take(line: string): void {
    if (!relevantTypes.some((type) => line.includes(type))) return;
    const { type, payload } = parseFields(line) ?? {};
    const fields = fieldsOf(payload);
    if (type === "turn_context") model = textOf(fields.model) || model;
    // `thread_token_usage` is written after a call, `total_token_usage` after the tools it requested.
    const total = fields.thread_token_usage ?? fieldsOf(fields.info).total_token_usage;
    const isUsage = type === "token_usage_record" || fields.type === "token_count";
    if (isUsage && total !== undefined) tokens = tokensOf(total);
  }

  return {
    follow(id) {
      if (id === thread) return;
      thread = id;
      path = undefined;
      offset = 0;
    },
    tokens() {
      update();
      return tokens;
    },
    model() {
      if (model === undefined) update();
      return model;
    },
  };
}

function find(directory: string, threadId: string): string | undefined {
  const names = readdirSync(directory, { recursive: true, encoding: "utf8" });
  const name = names.find((entry) => entry.endsWith(`-${threadId}.jsonl`));
  return name === undefined ? undefined : join(directory, name);
}

/** Codex counts cached and cache-write tokens as input, too. */
export function tokensOf(value: unknown): Tokens {
  const usage = fieldsOf(value);
  const cached = countOf(usage.cached_input_tokens);
  const cacheWrite = countOf(usage.cache_write_input_tokens);
  const input = Math.max(0, countOf(usage.input_tokens) - cached - cacheWrite);
  return { input, cached, cacheWrite, output: countOf(usage.output_tokens) };
}

export function subtractTokens(tokens: Tokens, before: Tokens | undefined): Tokens {
  if (before === undefined) return tokens;
  const of = (name: keyof Tokens) => Math.max(0, tokens[name] - before[name]);
  return { input: of("input"), cached: of("cached"), cacheWrite: of("cacheWrite"), output: of("output") };
}
