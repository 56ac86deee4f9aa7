#!/usr/bin/env node
// Plain JavaScript, so that an old Node can print this message.
const [major, minor] = process.versions.node.split(".").map(Number);
if (major < 22 || (major === 22 && minor < 18)) {
  console.error(`concierge: needs Node.js 22.18 or later; this is ${process.versions.node}`);
  process.exit(1);
}
const { main } = await import("../main.ts");
process.exitCode = await main(process.argv.slice(2));
