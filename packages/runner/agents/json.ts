import { conversationIdPattern } from "@concierge/protocol";

/** Reads fields of an agent's JSON. A missing field, or one of another type, reads as empty. */
export type Fields = Readonly<Record<string, unknown>>;

const noFields: Fields = {};

export function parseFields(line: string): Fields | undefined {
  if (!line.trimStart().startsWith("{")) return undefined;
  try {
    return fieldsOf(JSON.parse(line));
  } catch {
    return undefined;
  }
}

export function fieldsOf(value: unknown): Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : noFields;
}

export function listOf(value: unknown): Fields[] {
  return Array.isArray(value) ? value.map(fieldsOf) : [];
}

export function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** A larger number is not plausible, and sums of it would not be exact. */
const maxCount = 1e12;

/** A count or an amount of money, never negative. */
export function numberOf(value: unknown): number {
  return typeof value === "number" && value > 0 && value <= maxCount ? value : 0;
}

export function countOf(value: unknown): number {
  return Math.round(numberOf(value));
}

export function conversationIdOf(value: unknown): string | undefined {
  return typeof value === "string" && conversationIdPattern.test(value) ? value : undefined;
}

export function jsonOf(value: unknown): string {
  try {
    return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
  } catch {
    return "";
  }
}
