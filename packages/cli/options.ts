import { InvalidArgumentError } from "@commander-js/extra-typings";

/** The options of every command. */
export interface GlobalOptions {
  url?: string | undefined;
  key?: string | undefined;
  profile?: string | undefined;
  json?: true | undefined;
}

const unitMs: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** `500ms`, `30s`, `5m`, `2h` or `1d`. */
export function parseDuration(text: string): number {
  const [, amount = "", unit = ""] = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(text) ?? [];
  const ms = Math.round(Number(amount) * (unitMs[unit] ?? Number.NaN));
  if (ms > 0) return ms;
  throw new InvalidArgumentError("Write a duration such as 30s, 5m or 2h.");
}

export function parseWholeNumber(text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("Write a whole number.");
}

export function parseAmount(text: string): number {
  const amount = Number(text);
  if (text.trim() !== "" && amount > 0) return amount;
  throw new InvalidArgumentError("Write an amount such as 2.50.");
}

/** Collects `NAME=VALUE`. */
export function collectPair(text: string, pairs: Record<string, string> = {}): Record<string, string> {
  const at = text.indexOf("=");
  if (at < 1) throw new InvalidArgumentError("Write NAME=VALUE.");
  return { ...pairs, [text.slice(0, at)]: text.slice(at + 1) };
}

/** Like `collectPair`. `NAME` alone takes the value from this process's environment, which keeps it out of `ps`. */
export function collectVariable(text: string, pairs: Record<string, string> = {}): Record<string, string> {
  if (text.includes("=")) return collectPair(text, pairs);
  const value = process.env[text];
  if (value === undefined) throw new InvalidArgumentError(`${text} is not set in this environment.`);
  return { ...pairs, [text]: value };
}

export function collect(text: string, list: string[] = []): string[] {
  return [...list, text];
}
