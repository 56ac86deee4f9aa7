/** Functions report to their test with JSON lines in a file. */
import { appendFileSync } from "node:fs";
import { readFile } from "node:fs/promises";

export function note(what: unknown): void {
  appendFileSync(process.env.FIXTURE_NOTES ?? "", `${JSON.stringify(what)}\n`);
}

export async function readNotes<Note>(file: string): Promise<Note[]> {
  const text = await readFile(file, "utf8").catch(() => "");
  return text
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));
}
