/** Parses a text table. The first line names the columns, the first word of each other line names its row. */
export function readTable(text: string): Record<string, Record<string, string>> {
  const [header = [], ...rows] = text
    .split("\n")
    .map((line) => line.split(/\s+/).filter(Boolean))
    .filter((words) => words.length > 0);
  return Object.fromEntries(
    rows.map(([name = "", ...cells]) => {
      if (cells.length !== header.length)
        throw new Error(`${name} has ${cells.length} cells, not ${header.length}.`);
      return [name, Object.fromEntries(cells.map((cell, index) => [header[index], cell]))];
    }),
  );
}
