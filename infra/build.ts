/** Builds the bundles before every `sst deploy`, so that they are never older than the sources. */
import { execFileSync } from "node:child_process";

execFileSync("npm", ["run", "build"], { cwd: $cli.paths.root, stdio: "pipe" });
