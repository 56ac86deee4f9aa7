import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { findHits, isChecked } from "./rules.ts";

const listed = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], {
  encoding: "utf8",
});
const paths = listed.split("\n").filter((path) => isChecked(path) && existsSync(path));
const hits = paths.flatMap((path) => findHits(path, readFileSync(path, "utf8")));
for (const { path, line, word, instead } of hits)
  console.error(`${path}:${line}: "${word}"; write ${instead}`);
console.log(`prose: ${paths.length} files, ${hits.length} hits`);
process.exitCode = hits.length > 0 ? 1 : 0;
