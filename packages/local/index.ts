export { clientConfig, physicalName } from "./aws.ts";
export { findGrown, formatSizes, recordedSizes, sizesOf } from "./build.ts";
export { bundle, bundleAside, bundleFunctions, ROOT } from "./bundle.ts";
export { itemErrors } from "./bundle-sdk.ts";
export { type BundleSize, filesWith, initFiles, sizeOf } from "./bundle-size.ts";
export { type LocalStack, type LocalStackOptions, startLocalStack } from "./stack.ts";
export { createTables } from "./tables.ts";
