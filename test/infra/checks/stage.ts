import { all, type Check, differs, read } from "../resources.ts";

/** Production and its data cannot be removed by mistake; every other stage can be removed completely. */
export const protection: Check = (program) => {
  const isProtected = program.stage === "production";
  return [
    ...differs("the app's protection", program.app.protect, isProtected),
    ...differs("the app's removal", program.app.removal, isProtected ? "retain" : "remove"),
    ...all(program, "table").flatMap((table) => [
      ...differs(
        `${table.name}'s deletion protection`,
        read(table, "deletionProtectionEnabled"),
        isProtected,
      ),
      ...differs(`that ${table.name} is retained`, table.isRetained, isProtected),
    ]),
    ...all(program, "logGroup").flatMap((group) =>
      differs(`that ${group.name} is retained`, group.isRetained, isProtected),
    ),
  ];
};
