#!/usr/bin/env node
const { main } = await import("../snapshot.ts");
process.exitCode = await main(process.argv.slice(2));
