import { expect, it } from "vitest";
import { countLicenses, judgeDependencies } from "./rules.ts";

it("accepts permissive licences and explained install scripts", () => {
  const packages = {
    "": { license: "none of our business" },
    "packages/core": { license: "UNLICENSED" },
    "node_modules/@concierge/core": { link: true },
    "node_modules/zod": { license: "MIT" },
    "node_modules/a/node_modules/esbuild": { license: "MIT", hasInstallScript: true },
    "node_modules/lightningcss": { license: "MPL-2.0", dev: true },
  };
  expect(judgeDependencies(packages)).toEqual([]);
  expect(countLicenses(packages)).toEqual([
    ["MIT", 2],
    ["MPL-2.0", 1],
  ]);
});

it.each([
  [{ license: "MIT", hasInstallScript: true }, "runs an install script that nobody explained"],
  [{ license: "MPL-2.0" }, "has the licence MPL-2.0, which is not accepted for production"],
  [{ license: "SSPL-1.0", dev: true }, "has the licence SSPL-1.0, which is not accepted for development"],
  [{}, "has the licence none, which is not accepted for production"],
])("reports %j", (locked, fault) => {
  expect(judgeDependencies({ "node_modules/x": locked })).toEqual([`node_modules/x ${fault}`]);
});
