import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { findBrokenLinks } from "./links.ts";

const root = join(import.meta.dirname, "../..");
const exists = (path: string) => existsSync(join(root, path));
const listed = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard", "*.md"], {
  cwd: root,
  encoding: "utf8",
});
const documents = listed.split("\n").filter((path) => path !== "" && exists(path));

describe("the documents", () => {
  it.each(documents)("%s has no broken link", (path) => {
    expect(findBrokenLinks(path, readFileSync(join(root, path), "utf8"), exists)).toEqual([]);
  });

  it("a broken link is found", () => {
    const text = "[a](../b.md#c) [d](https://e.example) [f](#g) [h](gone.ts)";
    expect(findBrokenLinks("docs/x.md", text, (path) => path === "b.md")).toEqual(["gone.ts"]);
  });
});

describe("docs/how-it-works.md", () => {
  const text = readFileSync(join(root, "docs/how-it-works.md"), "utf8");
  const sections = new Map(
    text.split(/^## /m).map((section) => [section.split("\n")[0] ?? "", rowsOf(section)] as const),
  );

  it.each([...sections].filter(([, rows]) => rows.length > 0))(
    "%s names functions that are in their files",
    (_section, rows) => {
      const missing = rows.filter(({ file, name }) => !readFileSync(join(root, file), "utf8").includes(name));
      expect(missing).toEqual([]);
    },
  );

  it("a start passes at most 30 functions in 25 files", () => {
    const rows = sections.get("One start") ?? [];
    expect(rows.length).toBeGreaterThan(20);
    expect(rows.length).toBeLessThanOrEqual(30);
    expect(new Set(rows.map(({ file }) => file)).size).toBeLessThanOrEqual(25);
  });

  it("a stop passes at most 14 functions", () => {
    const rows = sections.get("One stop") ?? [];
    expect(rows.length).toBeGreaterThan(10);
    expect(rows.length).toBeLessThanOrEqual(14);
  });
});

/** The rows of a walk: `| 1 | [..](../file.ts) | `name` | … |`. */
function rowsOf(section: string): { file: string; name: string }[] {
  const rows = section.matchAll(/^\| \d+ \| \[[^\]]*\]\(\.\.\/([^)]+)\) \| `([^`]+)` \|/gm);
  return [...rows].map(([, file = "", name = ""]) => ({ file, name }));
}
