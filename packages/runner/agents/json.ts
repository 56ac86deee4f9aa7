/** Reading what an agent printed: whatever is not there, or is something else, is nothing. */
export type Fields = Readonly<Record<string, unknown>>;

const NOTHING: Fields = {};

export function parseFields(line: string): Fields | undefined {
  if (!line.trimStart().startsWith("{")) return undefined;
  try {
    return fieldsOf(JSON.parse(line));
  } catch {
    return undefined;
  }
}

export function fieldsOf(value: unknown): Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : NOTHING;
}

export function listOf(value: unknown): Fields[] {
  return Array.isArray(value) ? value.map(fieldsOf) : [];
}

export function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** More than an agent can use is none that it has used; so sums stay exact. */
const MAX_COUNT = 1e12;

/** A count, or a sum of money: neither is negative. */
export function numberOf(value: unknown): number {
  return typeof value === "number" && value > 0 && value <= MAX_COUNT ? value : 0;
}

export function countOf(value: unknown): number {
  return Math.round(numberOf(value));
}

/** It comes back as an argument, so it must not be taken for an option. */
export function conversationIdOf(value: unknown): string | undefined {
  return typeof value === "string" && CONVERSATION_ID.test(value) ? value : undefined;
}

export const CONVERSATION_ID = /^[A-Za-z0-9][\x21-\x7e]{0,199}$/;

export function jsonOf(value: unknown): string {
  try {
    return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
  } catch {
    return "";
  }
}
