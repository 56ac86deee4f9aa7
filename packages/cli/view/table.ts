import { stripVTControlCharacters } from "node:util";
import { paint, shorten } from "./format.ts";
import { printable } from "./sanitize.ts";

/** Prints one JSON document. */
export function printJson(value: unknown): void {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

export function printLine(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** Notes that are not the result. */
export function printNote(text: string): void {
  process.stderr.write(`${text}\n`);
}

/** Aligned columns. On a terminal the last one is cut to the width. */
export function printTable(header: readonly string[], rows: readonly (readonly string[])[]): void {
  const clean = rows.map((row) => row.map(printable));
  const widths = header.map((name, at) =>
    Math.max(name.length, ...clean.map((row) => widthOf(row[at] ?? ""))),
  );
  const line = (cells: readonly string[]) => {
    const padded = cells.map((cell, at) => cell + " ".repeat((widths[at] ?? 0) - widthOf(cell)));
    return padded.join("  ").trimEnd();
  };
  const lastWidth = (process.stdout.columns ?? Number.POSITIVE_INFINITY) - taken(widths);
  printLine(paint("bold", line(header)));
  for (const row of clean)
    printLine(line([...row.slice(0, -1), shorten(row.at(-1) ?? "", Math.max(lastWidth, 20))]));
}

/** Names and values, one line each. Values that are missing are left out. */
export function printFields(fields: Readonly<Record<string, string | undefined>>): void {
  const shown = Object.entries(fields).filter(([, value]) => value !== undefined && value !== "");
  const width = Math.max(...shown.map(([name]) => name.length));
  for (const [name, value = ""] of shown)
    printLine(`${paint("dim", name.padEnd(width))}  ${printable(value)}`);
}

/** The width of all columns but the last. */
function taken(widths: readonly number[]): number {
  return widths.slice(0, -1).reduce((total, width) => total + width + 2, 0);
}

function widthOf(text: string): number {
  return [...stripVTControlCharacters(text)].length;
}
