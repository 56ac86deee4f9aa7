import { execFileSync } from "node:child_process";
import { configDefaults, defineConfig } from "vitest/config";

/** Suites that need isolated sandboxes. */
const needIsolation = [
  "test/e2e/**",
  "test/client/{client,cli,cli-setup,dev,everywhere,terminal,examples}.test.ts",
  "test/dashboard/*.test.ts",
  "test/mcp/**",
  "test/security/**",
  "test/smoke/**",
  "packages/sessions/processes.test.ts",
  "packages/dev/cli.test.ts",
  "packages/dev/stack/stack.test.ts",
  "packages/provider-vercel/*.test.ts",
  "packages/vercel-sandbox-local/!(plain).test.ts",
];

/**
 * Suites that take a minute or more each. `npm test` leaves them out and still has every guarantee once; `npm run
 * test:long` runs them, and `LONG=all npx vitest run …` runs them with the rest.
 */
const longSuites = [
  "test/client/{client,cli,cli-setup,dev,everywhere,terminal,examples}.test.ts",
  "packages/sessions/processes.test.ts",
  "test/e2e/{crashes,deploy,grants,health,nets,reuse}.test.ts",
  "test/e2e/faults/*.test.ts",
  "test/infra/{deploy,mutants,observability,parity}.test.ts",
  "test/packages/*.test.ts",
  "test/simulation/{exhaustive,mutants}.test.ts",
  "test/security/{fuzz-long,limits}.test.ts",
  "test/smoke/smoke.test.ts",
];
/** Needs Chromium: `npm run test:dashboard`. */
const browserSuites = ["test/dashboard/*.test.ts"];
const long = process.env.LONG;

/** Suites that run the whole stack on the functions' bundles. */
const onBundles = ["test/{e2e,mcp,security,smoke}/**/*.test.ts"];
const sources = ["{packages,functions,infra,test}/**/*.test.ts"];
const exclude = [
  ...configDefaults.exclude,
  ...(canIsolate() ? [] : withoutIsolation()),
  ...(long === undefined ? longSuites : []),
  ...(long === "all" ? [] : browserSuites),
];
const isStack = (suite: string) => /^test\/(e2e|mcp|security|smoke)\//.test(suite);
const included = {
  sources: long === "only" ? longSuites.filter((suite) => !isStack(suite)) : sources,
  bundles: long === "only" ? longSuites.filter(isStack) : onBundles,
};

export default defineConfig({
  test: {
    pool: "forks",
    maxWorkers: 2,
    testTimeout: 30_000,
    // On a busy machine a stack may start too slowly for one test. A broken test fails twice.
    retry: process.env.CI ? 1 : 0,
    hookTimeout: 60_000,
    projects: [
      {
        extends: true,
        test: {
          name: "sources",
          include: included.sources,
          exclude: [...exclude, ...onBundles],
        },
      },
      {
        extends: true,
        test: {
          name: "bundles",
          include: included.bundles,
          exclude,
          globalSetup: "test/testing/bundles.ts",
        },
      },
    ],
  },
});

function canIsolate(): boolean {
  try {
    execFileSync("bwrap", ["--ro-bind", "/", "/", "--unshare-pid", "--proc", "/proc", "true"], {
      stdio: "ignore",
    });
    return true;
  } catch {
    return false;
  }
}

function withoutIsolation(): string[] {
  const line = `BUBBLEWRAP IS MISSING OR DOES NOT WORK HERE: NOT RUN are ${needIsolation.join(", ")}`;
  if (process.env.CI) throw new Error(line);
  console.error(line);
  return needIsolation;
}
