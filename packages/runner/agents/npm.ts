import type { Installation } from "./adapter.ts";

/** Where it is fetched from, which its sandbox must be let reach. */
export const npmRegistry = "registry.npmjs.org";

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
