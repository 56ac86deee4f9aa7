/** Words that make a sentence hard to read, and what to write instead. The style guide has examples. */
const habits: readonly { pattern: RegExp; instead: string }[] = [
  { pattern: /\bwho(?:so)?ever\b/gi, instead: "the caller, another worker, a reader" },
  { pattern: /\bwherever\b/gi, instead: "if, when, every place that" },
  { pattern: /\bwhatever\b/gi, instead: "name the thing, or any" },
  { pattern: /\bcan not\b/gi, instead: "cannot" },
  { pattern: /\b(?:he|his|him|himself)\b/gi, instead: "it, or the name of the program" },
  { pattern: /\b(?:thereof|hereby|wherein|whereby)\b/gi, instead: "a plain word" },
];

export interface Hit {
  path: string;
  line: number;
  word: string;
  instead: string;
}

/** Every bad habit in a file. Code is checked too: names are prose. */
export function findHits(path: string, text: string): Hit[] {
  return text
    .split("\n")
    .flatMap((content, at) =>
      habits.flatMap(({ pattern, instead }) =>
        [...content.matchAll(pattern)].map(([word]) => ({ path, line: at + 1, word, instead })),
      ),
    );
}

/** Whether a file is prose or code of ours: not data, not recorded output, not this check's own examples. */
export function isChecked(path: string): boolean {
  if (path.startsWith("test/prose/") || path.includes("/recordings/")) return false;
  return /\.(?:ts|mjs|md|sh|yml)$|^\.ci\/run$/.test(path);
}
