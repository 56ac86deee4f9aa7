import type { Installation } from "./adapter.ts";

/** The sandbox of an agent that npm installs must be able to reach it. */
export const npmRegistry = "registry.npmjs.org";

/** An agent from npm. */
export function npmPackage(name: string, version: string): Installation {
  const quiet = ["--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"];
  return {
    version,
    command: (directory) => ({
      file: "npm",
      args: ["install", "--global", `--prefix=${directory}`, ...quiet, `${name}@${version}`],
    }),
  };
}
