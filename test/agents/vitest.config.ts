import { defineConfig } from "vitest/config";

/** The real CLIs: hundreds of megabytes from npm the first time, so they have their own command. */
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
