#!/usr/bin/env node
const { main } = await import("../stack/snapshot.ts");
process.exitCode = await main(process.argv.slice(2));
