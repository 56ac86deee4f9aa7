import { describe, expect, it } from "vitest";
import { findHits, isChecked } from "./rules.ts";

describe("the prose check", () => {
  it.each([
    ["// Whoever comes late reads again.", "Whoever"],
    ["const detail = `It can not be stopped`;", "can not"],
    ["/** The worker renews his claim. */", "his"],
    ["It is kept wherever it is.", "wherever"],
  ])("finds the habit in %j", (text, word) => {
    expect(findHits("a.ts", text)).toMatchObject([{ path: "a.ts", line: 1, word }]);
  });

  it("reports the line", () => {
    expect(findHits("a.md", "fine\nfine\nwhatever")).toMatchObject([{ line: 3 }]);
  });

  it.each(["// The helper cannot read this: the history is kept.", "const cannotHelp = this;"])(
    "accepts %j",
    (text) => {
      expect(findHits("a.ts", text)).toEqual([]);
    },
  );

  it("checks code, documents and scripts, but not recorded output", () => {
    const paths = ["a/b.ts", "docs/a.md", ".ci/run", "a/recordings/b.jsonl", "a.json"];
    expect(paths.filter(isChecked)).toEqual(["a/b.ts", "docs/a.md", ".ci/run"]);
  });
});
