import { defineConfig } from "vitest/config";

/** AWS's own runtime client: compiled on first use, which takes a minute or more, so it has its own command. */
export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ["*.lambda.ts"],
    globalSetup: ["./client.ts", "../testing/bundles.ts"],
    pool: "forks",
    maxWorkers: 1,
    testTimeout: 120_000,
    hookTimeout: 300_000,
  },
});
