/**
 * `npm run infra:install`: writes SST's platform to `.sst/`, for type checks and tests of the program. It needs no account.
 * The first run takes a minute, later ones nothing.
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

/** `config.d.ts` is written last. */
function isInstalled(): boolean {
  if (!existsSync(".sst/platform/config.d.ts")) return false;
  return readFileSync(".sst/platform/version", "utf8").includes(wanted);
}
