// Imported before a cold start, keeps which files it loads.
import { registerHooks } from "node:module";
import { fileURLToPath } from "node:url";

globalThis.filesLoaded = [];
registerHooks({
  load(url, context, next) {
    if (url.startsWith("file:")) globalThis.filesLoaded.push(fileURLToPath(url));
    return next(url, context);
  },
});
