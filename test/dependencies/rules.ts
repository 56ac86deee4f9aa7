/** A package as `package-lock.json` records it. */
export interface LockedPackage {
  version?: string;
  license?: string;
  dev?: boolean;
  link?: boolean;
  hasInstallScript?: boolean;
}

/** Packages that run a script when they are installed, and why that is acceptable. All of them work without it. */
const installScripts: Readonly<Record<string, string>> = {
  "classic-level": "picks the prebuilt binary for this machine (node-gyp-build); used by the local DynamoDB",
  "core-js-pure": "prints a request for donations; only its parent's prebuilt file is used (API explorer)",
  esbuild: "checks that the binary of its optional dependency runs",
};

/** Licences of what we ship. */
const permissive = new Set([
  "0BSD",
  "Apache-2.0",
  "BlueOak-1.0.0",
  "BSD-2-Clause",
  "BSD-3-Clause",
  "ISC",
  "MIT",
  "MIT OR Apache-2.0",
  "(MIT OR CC0-1.0)",
  "(MIT OR GPL-3.0-or-later)",
  "PSF-2.0",
  "Python-2.0",
  "Unlicense",
]);

/** Licences of what only tests and builds use and nobody receives. */
const developmentOnly = new Set(["AGPL-3.0-or-later", "MPL-2.0"]);

/** One line for each package that breaks a rule. */
export function judgeDependencies(packages: Readonly<Record<string, LockedPackage>>): string[] {
  const installed = Object.entries(packages).filter(
    ([path, { link }]) => path.includes("node_modules/") && link !== true,
  );
  const unexplained = installed
    .filter(([path, { hasInstallScript }]) => hasInstallScript && !(nameOf(path) in installScripts))
    .map(([path]) => `${path} runs an install script that nobody explained`);
  const unlicensed = installed.filter(([, locked]) => !isLicensed(locked)).map(describeLicense);
  return [...unexplained, ...unlicensed];
}

/** How many packages have each licence, most common first. */
export function countLicenses(packages: Readonly<Record<string, LockedPackage>>): [string, number][] {
  const counts = new Map<string, number>();
  for (const [path, { license = "none", link }] of Object.entries(packages)) {
    if (path.includes("node_modules/") && link !== true) counts.set(license, (counts.get(license) ?? 0) + 1);
  }
  return [...counts].sort(([, a], [, b]) => b - a);
}

function isLicensed({ license = "", dev = false }: LockedPackage): boolean {
  return permissive.has(license) || (dev && developmentOnly.has(license));
}

function describeLicense([path, { license = "none", dev = false }]: [string, LockedPackage]): string {
  return `${path} has the licence ${license}, which is not accepted for ${dev ? "development" : "production"}`;
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length);
}
