/** How large a bundle is: what a cold start loads, and all there is. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import type { Metafile } from "esbuild";
import { ROOT } from "./bundle.ts";

export interface BundleSize {
  /** Of the entry and all that it imports by a statement. */
  initBytes: number;
  /** With what is imported where it is needed. */
  totalBytes: number;
  /** As it is sent to Lambda, nearly: each file for itself. */
  gzipBytes: number;
}

export function sizeOf(metafile: Metafile): BundleSize {
  const files = Object.keys(metafile.outputs);
  return {
    initBytes: bytesOf(metafile, initFiles(metafile)),
    totalBytes: bytesOf(metafile, files),
    gzipBytes: files.reduce((sum, file) => sum + gzipSync(readFileSync(join(ROOT, file))).length, 0),
  };
}

/** The outputs that are loaded before the first line of the handler runs. */
export function initFiles(metafile: Metafile): string[] {
  return withImports(metafile, (file) => file.endsWith("/bundle.mjs"));
}

/** The outputs that are loaded with a module that is imported where it is needed. */
export function filesWith(metafile: Metafile, module: string): string[] {
  return withImports(metafile, (file) => metafile.outputs[file]?.entryPoint === module);
}

function withImports({ outputs }: Metafile, isFirst: (file: string) => boolean): string[] {
  const first = Object.keys(outputs).find(isFirst);
  const found = new Set(first ? [first] : []);
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
