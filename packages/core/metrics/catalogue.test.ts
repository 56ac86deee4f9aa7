import { globSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { catalogue, type MetricDefinition, type MetricName } from "./catalogue.ts";
import { successMetrics, type Term } from "./targets.ts";

const root = new URL("../../../", import.meta.url);
const names = Object.keys(catalogue) as MetricName[];
const definitions: Record<string, MetricDefinition> = catalogue;

/** Every `count("name"` and `count(`name_${…}`` in the code, as a pattern. */
function countedIn(files: readonly string[]): RegExp[] {
  return files.flatMap((file) => {
    const calls = readFileSync(new URL(file, root), "utf8").matchAll(/\.count\(\s*(?:"([^"]+)"|`([^`]+)`)/g);
    return [...calls].map(
      ([, literal, template = ""]) =>
        new RegExp(`^${literal ?? template.replaceAll(/\$\{[^}]*\}/g, "[a-z]+")}$`),
    );
  });
}

const sources = globSync(["packages/{core,sessions}/**/*.ts", "functions/**/*.ts"], { cwd: root }).filter(
  (file) => !/node_modules|\.test\.ts$|testing/.test(file),
);

describe("the catalogue", () => {
  it("contains no metric that is never counted", () => {
    const counted = countedIn(sources);
    expect(sources.length).toBeGreaterThan(50);
    expect(names.filter((name) => !counted.some((pattern) => pattern.test(name)))).toEqual([]);
  });

  it("contains every metric that is counted", () => {
    const counted = countedIn(sources);
    expect(counted.filter((pattern) => !names.some((name) => pattern.test(name)))).toEqual([]);
  });

  it("names each metric once, in snake case, with a description", () => {
    for (const name of names) expect(name).toMatch(/^[a-z]+(_[a-z]+)*$/);
    expect(new Set(names.map((name) => definitions[name]?.says)).size).toBe(names.length);
  });
});

describe("a target", () => {
  const terms = Object.entries(successMetrics).flatMap(([name, { measure }]) =>
    ("term" in measure ? [measure.term] : [...measure.part, ...measure.whole]).map(
      (term: Term) => [name, term] as const,
    ),
  );

  it.each(terms)("of %s uses an existing metric and dimension value: %o", (_, { metric, is }) => {
    expect(definitions[metric]).toBeDefined();
    if (is !== undefined) expect(definitions[metric]?.by?.values).toContain(is);
  });
});
