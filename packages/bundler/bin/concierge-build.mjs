#!/usr/bin/env node
const { main } = await import("../build.ts");
process.exitCode = await main(process.argv.slice(2));
