#!/usr/bin/env node
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major < 22 || (major === 22 && minor < 18)) {
  console.error(`vercel-sandbox-local needs Node.js 22.18 or later; this is ${process.versions.node}.`);
  process.exit(1);
}
const { main } = await import("../cli.ts");
await main(process.argv.slice(2));
