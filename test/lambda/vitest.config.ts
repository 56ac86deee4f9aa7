import { defineConfig } from "vitest/config";

/** AWS's own runtime client: it is compiled the first time, for a minute or more, so it is not among the rest. */
export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ["*.lambda.ts"],
    globalSetup: ["./client.ts", "../fixtures/bundles.ts"],
    pool: "forks",
    maxWorkers: 1,
    testTimeout: 120_000,
    hookTimeout: 300_000,
  },
});
