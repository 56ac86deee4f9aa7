import { posix } from "node:path";

/** Relative links in a Markdown text that lead to no file. `exists` takes a path from the root of the repository. */
export function findBrokenLinks(path: string, text: string, exists: (target: string) => boolean): string[] {
  const targets = [...text.matchAll(/\]\(([^)\s]+)\)/g)].flatMap(([, target]) => target ?? []);
  return targets.filter((target) => {
    if (/^[a-z]+:|^#/.test(target)) return false;
    const [file = ""] = target.split("#");
    return !exists(posix.normalize(posix.join(posix.dirname(path), file)));
  });
}
