import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { entriesOf, findViolations } from "./rules.ts";

const listed = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], {
  encoding: "utf8",
});
const paths = listed.split("\n").filter((path) => existsSync(path));
const entries = paths
  .filter((path) => /^(packages\/[^/]+|functions)\/package\.json$/.test(path))
  .flatMap((path) => entriesOf(JSON.parse(readFileSync(path, "utf8"))));
const files = paths
  // Its own test consists of forbidden imports.
  .filter((path) => /\.(ts|mjs)$/.test(path) && !path.startsWith("test/boundaries/"))
  .map((path) => ({ path, text: readFileSync(path, "utf8") }));

const violations = findViolations(files, entries);
for (const line of violations) console.error(line);
console.log(`boundaries: ${files.length} files, ${violations.length} violations`);
process.exitCode = violations.length > 0 ? 1 : 0;
