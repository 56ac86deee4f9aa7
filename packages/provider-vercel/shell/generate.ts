/**
 * `npm run shell`: writes scripts.ts from the shell scripts. The bundles have no source tree to read a `.sh` file from,
 * and Node cannot import one as text, so the scripts are checked in a second time as TypeScript. A test compares them.
 */
import { readFileSync, writeFileSync } from "node:fs";

const include = `. "\${0%/*}/common.sh"\n`;

export const scriptsFile = new URL("./scripts.ts", import.meta.url);

export function generate(): string {
  const common = read("common.sh");
  const codes = [...common.matchAll(/^exit_(\w+)=(\d+)$/gm)].map(([, name, code]) => `${name}: ${code}`);
  return `// Generated from the shell scripts beside it by \`npm run shell\`. Do not edit.

export const exitCodes = { ${codes.join(", ")} } as const;

export const sweepScript = ${literal(read("sweep.sh").replace(include, () => common))};

export const hideConfigScript = ${literal(read("hide-config.sh"))};

export const launchScript = ${literal(read("launch.sh").replace(include, () => common))};
`;
}

/** Without comments: the text is an argument of every launch and sweep. */
function read(file: string): string {
  const text = readFileSync(new URL(file, import.meta.url), "utf8");
  return text.replaceAll(/^\s*(#.*)?\n/gm, "");
}

function literal(text: string): string {
  return `\`${text.replaceAll(/\\|`|\$\{/g, "\\$&")}\``;
}

if (import.meta.main) writeFileSync(scriptsFile, generate());
