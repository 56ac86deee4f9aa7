/**
 * `npm run infra:install`: writes SST's platform into `.sst/`, which the program is type-checked and evaluated
 * against. It needs no account; a minute the first time, nothing when it is there.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";

const wanted: string = JSON.parse(readFileSync("node_modules/sst/package.json", "utf8")).version;

if (!isInstalled()) {
  console.log(`installing SST ${wanted}'s platform into .sst/`);
  const env = {
    ...process.env,
    SST_SKIP_DEPENDENCY_CHECK: "1",
    SST_NO_BUN: "1",
    SST_TELEMETRY_DISABLED: "1",
    AWS_EC2_METADATA_DISABLED: "true",
  };
  const { status } = spawnSync("node_modules/.bin/sst", ["install", "--stage", "dev"], {
    env,
    stdio: "inherit",
  });
  process.exitCode = status ?? 1;
}

/** `config.d.ts` is the last file to be written. */
function isInstalled(): boolean {
  if (!existsSync(".sst/platform/config.d.ts")) return false;
  return readFileSync(".sst/platform/version", "utf8").includes(wanted);
}
