/** `node bundle.ts <directory>`: runs Vite once. */
import { fileURLToPath } from "node:url";
import { build } from "vite";

const [directory] = process.argv.slice(2);
if (!directory) throw new Error("bundle.ts takes a directory");

await build({
  configFile: false,
  root: fileURLToPath(new URL("app", import.meta.url)),
  // Relative, so that the page works behind a path prefix.
  base: "./",
  logLevel: "warn",
  build: {
    outDir: directory,
    emptyOutDir: true,
    assetsDir: "dashboard",
    assetsInlineLimit: 0,
    target: "es2022",
    chunkSizeWarningLimit: 1000,
    reportCompressedSize: false,
    modulePreload: { polyfill: false },
  },
});
