import { execFileSync } from "node:child_process";
import { configDefaults, defineConfig } from "vitest/config";

/** What is about sandboxes that are isolated, or about what runs in them. */
const needIsolation = [
  "test/e2e/**",
  "test/security/**",
  "test/smoke/**",
  "packages/sessions/processes.test.ts",
  "packages/local/cli.test.ts",
  "packages/local/stack.test.ts",
  "packages/provider/provider.test.ts",
  "packages/vercel-sandbox-local/!(plain).test.ts",
];

/** What runs the whole stack, on the functions' bundles. */
const onBundles = ["test/{e2e,security,smoke}/**/*.test.ts"];
const exclude = [...configDefaults.exclude, ...(canIsolate() ? [] : withoutIsolation())];

export default defineConfig({
  test: {
    pool: "forks",
    maxWorkers: 2,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    projects: [
      {
        extends: true,
        test: {
          name: "sources",
          include: ["{packages,functions,infra,test}/**/*.test.ts"],
          exclude: [...exclude, ...onBundles],
        },
      },
      {
        extends: true,
        test: { name: "bundles", include: onBundles, exclude, globalSetup: "test/fixtures/bundles.ts" },
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
