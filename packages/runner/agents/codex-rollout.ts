import { countOf, fieldsOf, parseFields, textOf } from "./json.ts";
import type { Tokens } from "./prices.ts";

const { closeSync, fstatSync, openSync, readdirSync, readSync } = process.getBuiltinModule("node:fs");
const { join } = process.getBuiltinModule("node:path");

const LOOKED_FOR = ['"turn_context"', '"token_usage_record"', '"token_count"'];
const READ_BYTES = 256 * 1024;
/** What is longer is no line that is looked for here. */
const MAX_LINE_BYTES = 1024 * 1024;

/**
 * The file that Codex keeps of a thread. Unlike its stdout it has the model, and the usage after each call: so a turn's
 * own usage can be told from that of the turns before, and a budget holds within a turn. A file that can not be read,
 * or has become something else, only means that less is known.
 */
export interface Rollout {
  /** Which thread it turned out to be. */
  follow(threadId: string): void;
  /** All that the thread has used so far. */
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
      // It is not there, or not ours to read.
    }
  }

  function readOn(file: string): void {
    const fd = openSync(file, "r");
    try {
      const end = fstatSync(fd).size;
      const buffer = Buffer.allocUnsafe(READ_BYTES);
      while (offset < end) {
        const read = readSync(fd, buffer, 0, Math.min(READ_BYTES, end - offset), offset);
        if (read === 0) return;
        offset += read;
        // Only ASCII is looked for.
        const lines = (rest + buffer.toString("latin1", 0, read)).split("\n");
        rest = (lines.pop() ?? "").slice(-MAX_LINE_BYTES);
        for (const line of lines) take(line);
      }
    } finally {
      closeSync(fd);
    }
  }

  function take(line: string): void {
    if (!LOOKED_FOR.some((type) => line.includes(type))) return;
    const { type, payload } = parseFields(line) ?? {};
    const fields = fieldsOf(payload);
    if (type === "turn_context") model = textOf(fields.model) || model;
    // The first is written when a call has ended, the second when the tools that it asked for have, too.
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

/** Codex counts what came from a cache, and what went into one, also as input. */
export function tokensOf(value: unknown): Tokens {
  const usage = fieldsOf(value);
  const cached = countOf(usage.cached_input_tokens);
  const cacheWrite = countOf(usage.cache_write_input_tokens);
  const input = Math.max(0, countOf(usage.input_tokens) - cached - cacheWrite);
  return { input, cached, cacheWrite, output: countOf(usage.output_tokens) };
}

export function lessTokens(tokens: Tokens, before: Tokens | undefined): Tokens {
  if (before === undefined) return tokens;
  const of = (name: keyof Tokens) => Math.max(0, tokens[name] - before[name]);
  return { input: of("input"), cached: of("cached"), cacheWrite: of("cacheWrite"), output: of("output") };
}
