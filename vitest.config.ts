import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["{packages,functions,infra,test}/**/*.test.ts"],
    pool: "forks",
    maxWorkers: 2,
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
});
