import type { Installation } from "./adapter.ts";

/** An agent that npm has. Its own warnings are not what anyone waits for. */
export function npmPackage(name: string, version: string): Installation {
  const quietly = ["--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"];
  return {
    version,
    command: (directory) => ({
      file: "npm",
      args: ["install", "--global", `--prefix=${directory}`, ...quietly, `${name}@${version}`],
    }),
  };
}
