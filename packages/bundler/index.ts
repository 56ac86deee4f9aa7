export { findGrown, formatSizes, recordedSizes, sizesOf } from "./build.ts";
export {
  bundle,
  bundleAsset,
  bundleFunctions,
  bundleToTempDir,
  repositoryRoot,
  writeFiles,
} from "./bundle.ts";
export { type BundleSize, filesWith, initFiles, sizeOf } from "./bundle-size.ts";
