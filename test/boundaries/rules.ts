import { posix } from "node:path";

/** What a package may import from others. Adapters know core, never each other. */
const mayImport: Readonly<Record<string, readonly string[]>> = {
  "packages/protocol": [],
  "packages/public-address": [],
  "packages/core": ["@concierge/protocol", "@concierge/public-address"],
  "packages/store": ["@concierge/core"],
  "packages/queue": ["@concierge/core"],
  "packages/provider-vercel": ["@concierge/core", "@concierge/protocol"],
  "packages/git": ["@concierge/core", "@concierge/public-address"],
  "packages/webhook": ["@concierge/core", "@concierge/public-address"],
  "packages/sessions": ["@concierge/core"],
  "packages/runner": ["@concierge/protocol"],
  // Its help shows how to import it.
  "packages/vercel-sandbox-local": ["vercel-sandbox-local"],
  // Runs in browsers: what it needs comes from the OpenAPI document.
  "packages/client": [],
  "packages/cli": ["@concierge/client"],
  "packages/bundler": ["@concierge/dashboard"],
  "packages/dashboard": ["@concierge/client"],
  "packages/dev": ["@concierge/core", "@concierge/bundler", "@concierge/dashboard", "vercel-sandbox-local"],
  functions: [
    "@concierge/core",
    "@concierge/store",
    "@concierge/protocol",
    "@concierge/queue",
    "@concierge/protocol",
    "@concierge/runner",
    "@concierge/provider-vercel",
    "@concierge/git",
    "@concierge/webhook",
  ],
};

/** Core does no I/O: hashing is arithmetic, all other Node modules are the outside world. */
const coreMayUse = new Set(["zod/mini", "node:crypto"]);

/** Plain data that everything that builds the stack reads. */
const shared = new Set(["infra/topology.ts", "infra/variables.ts"]);

const importPattern =
  /(?:^|[^.\w])(?:import|export)\s*(?:type\s)?(?:[\w*{}\s,$]+?\sfrom\s*|\(\s*)?["']([^"'\n]+)["']/g;

export interface SourceFile {
  path: string;
  text: string;
}

/** What may be imported from a package: what its `exports` name. */
export function entriesOf({ name, exports = {} }: { name: string; exports?: object }): string[] {
  return [name, ...Object.keys(exports).map((entry) => posix.join(name, entry))];
}

/** Every forbidden import, one line each. `entries` lists each package's name before its subpaths. */
export function findViolations(files: readonly SourceFile[], entries: readonly string[]): string[] {
  return files.flatMap((file) =>
    importsOf(file.text).flatMap((specifier) => {
      const fault = judge(file.path, specifier, entries);
      return fault ? [`${file.path}: "${specifier}" ${fault}`] : [];
    }),
  );
}

export function importsOf(text: string): string[] {
  return [...text.matchAll(importPattern)].flatMap(([, specifier]) => specifier ?? []);
}

function judge(path: string, specifier: string, entries: readonly string[]): string | undefined {
  const home = packageOf(path);
  const isTest = path.startsWith("test/") || /\.test\.ts$|\/testing\//.test(path);
  if (specifier.startsWith(".")) return judgeRelative(path, home, specifier, isTest);

  const owner = entries.find((name) => specifier === name || specifier.startsWith(`${name}/`));
  if (owner && !entries.includes(specifier)) return `reaches into ${owner}: only its entries may be imported`;
  if (isTest || home === undefined) return undefined;
  if (owner) return mayImport[home]?.includes(owner) ? undefined : `is not for ${home} to import`;
  if (home === "packages/core" && !coreMayUse.has(specifier)) return "is not for core, which does no I/O";
  return undefined;
}

function judgeRelative(
  path: string,
  home: string | undefined,
  specifier: string,
  isTest: boolean,
): string | undefined {
  const target = posix.join(posix.dirname(path), specifier);
  const targetHome = packageOf(target);
  if (shared.has(target) || targetHome === home) return undefined;
  if (targetHome !== undefined) return `reaches into ${targetHome} by path: import it by name`;
  return isTest || home === undefined ? undefined : "leaves its package";
}

function packageOf(path: string): string | undefined {
  const [first, second] = path.split("/");
  if (first === "functions") return "functions";
  return first === "packages" ? `packages/${second}` : undefined;
}
