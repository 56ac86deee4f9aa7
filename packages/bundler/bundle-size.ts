import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import type { Metafile } from "esbuild";
import { repositoryRoot } from "./bundle.ts";

export interface BundleSize {
  /** The entry and its static imports: what a cold start loads. */
  initBytes: number;
  /** With dynamic imports. */
  totalBytes: number;
  /** Each file compressed by itself; close to the size of the upload. */
  gzipBytes: number;
}

export function sizeOf(metafile: Metafile): BundleSize {
  const files = Object.keys(metafile.outputs);
  return {
    initBytes: bytesOf(metafile, initFiles(metafile)),
    totalBytes: bytesOf(metafile, files),
    gzipBytes: files.reduce(
      (sum, file) => sum + gzipSync(readFileSync(join(repositoryRoot, file))).length,
      0,
    ),
  };
}

/** The outputs that load before the handler runs. */
export function initFiles(metafile: Metafile): string[] {
  return staticImportsFrom(metafile, (file) => file.endsWith("/bundle.mjs"));
}

/** The outputs that a dynamic import of `module` loads. */
export function filesWith(metafile: Metafile, module: string): string[] {
  return staticImportsFrom(metafile, (file) => metafile.outputs[file]?.entryPoint === module);
}

function staticImportsFrom({ outputs }: Metafile, isEntry: (file: string) => boolean): string[] {
  const found = new Set(Object.keys(outputs).filter(isEntry).slice(0, 1));
  for (const file of found) {
    for (const { path, kind } of outputs[file]?.imports ?? []) {
      if (kind === "import-statement" && path in outputs) found.add(path);
    }
  }
  return [...found];
}

function bytesOf({ outputs }: Metafile, files: readonly string[]): number {
  return files.reduce((sum, file) => sum + (outputs[file]?.bytes ?? 0), 0);
}
