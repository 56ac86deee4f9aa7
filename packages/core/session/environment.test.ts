import { limits } from "@concierge/core";
import { expect, it } from "vitest";
import { parseEnvironment } from "./environment.ts";

it("records versions, agents and variable names", () => {
  const said =
    "version node v24.1.0\nversion os Some Linux 9\nversion git \nagent claude -\nvariable HOME -\n";
  expect(parseEnvironment(said)).toEqual({
    versions: { node: "v24.1.0", os: "Some Linux 9" },
    agents: ["claude"],
    variables: ["HOME"],
  });
});

it("bounds what the sandbox prints, and keeps only known names", () => {
  const many = Array.from(
    { length: 1000 },
    (_, i) => `variable ${"é".repeat(500)}${i} -\nversion tool${i} 1\nagent a${i} -`,
  );
  const found = parseEnvironment(`${many.join("\n")}\nversion node ${"€".repeat(1000)}\n`);
  expect(Object.keys(found.versions)).toEqual(["node"]);
  expect(found.versions.node).toHaveLength(limits.environmentNameMaxLength);
  expect(found.agents).toEqual([]);
  expect(found.variables).toHaveLength(limits.environmentNamesMax);
  for (const name of found.variables)
    expect(Buffer.byteLength(name)).toBeLessThanOrEqual(limits.environmentNameMaxLength);
});
