#!/usr/bin/env node
// Plain JavaScript that old versions can read, so that they can say what is wrong.
const [major, minor] = process.versions.node.split(".").map(Number);
if (major < 22 || (major === 22 && minor < 18)) {
  console.error(`concierge-dev: Node.js 22.18 or later is needed, this is ${process.versions.node}`);
  process.exit(1);
}
const { main } = await import("../cli.ts");
await main(process.argv.slice(2));
