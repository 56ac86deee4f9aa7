import { readdirSync } from "node:fs";
import { procStat } from "../processes/process-start.ts";

/** A process and its current descendants. */
export function processTree(root: number | undefined): { pid: number; start: string }[] {
  const all = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      const stat = procStat(Number(name));
      return stat ? [{ pid: Number(name), parent: stat.parent, start: stat.start }] : [];
    });
  const tree = all.filter(({ pid }) => pid === root);
  for (const { pid } of tree) tree.push(...all.filter(({ parent }) => parent === pid));
  return tree;
}
