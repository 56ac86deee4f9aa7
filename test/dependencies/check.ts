import { readFileSync } from "node:fs";
import { countLicenses, judgeDependencies } from "./rules.ts";

const { packages } = JSON.parse(readFileSync("package-lock.json", "utf8"));
const faults = judgeDependencies(packages);
for (const line of faults) console.error(line);
const licenses = countLicenses(packages).map(([license, count]) => `${count} ${license}`);
console.log(`dependencies: ${licenses.join(", ")}; ${faults.length} violations`);
process.exitCode = faults.length > 0 ? 1 : 0;
