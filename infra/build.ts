/** What is deployed is as new as its sources, whoever calls `sst deploy`. */
import { execFileSync } from "node:child_process";

execFileSync("npm", ["run", "build"], { cwd: $cli.paths.root, stdio: "pipe" });
