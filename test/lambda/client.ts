/**
 * AWS's Lambda runtime client for Node. Its native part is compiled on install with cmake, make, a C++ compiler and
 * Python, which takes a minute or more. So `npm ci` does not install it. It is kept for the next run.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const version = "4.0.2";
const root = fileURLToPath(new URL(`../../node_modules/.cache/aws-lambda-ric-${version}`, import.meta.url));

export const clientDirectory = `${root}/node_modules/aws-lambda-ric`;

/** Once for all suites. */
export function setup(): void {
  if (existsSync(`${clientDirectory}/rapid-client.node`)) return;
  console.log(`installing and compiling aws-lambda-ric ${version}; this takes a minute or more`);
  mkdirSync(root, { recursive: true });
  writeFileSync(`${root}/package.json`, JSON.stringify({ name: "aws-lambda-ric-here", private: true }));
  const { status, stdout, stderr } = spawnSync(
    "npm",
    ["install", "--save-exact", `aws-lambda-ric@${version}`],
    {
      cwd: root,
      encoding: "utf8",
    },
  );
  if (status !== 0) throw new Error(`aws-lambda-ric could not be installed\n${stdout}\n${stderr}`);
}
