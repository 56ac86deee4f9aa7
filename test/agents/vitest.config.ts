import { defineConfig } from "vitest/config";

/** The real CLIs: they are installed from npm, hundreds of megabytes the first time, so they are not among the rest. */
export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ["*.agents.ts"],
    pool: "forks",
    maxWorkers: 1,
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
