#!/usr/bin/env node
const { main } = await import("../packages.ts");
await main();
