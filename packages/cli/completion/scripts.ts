/** Completion scripts, made from the commands themselves. */
import type { CommandUnknownOpts } from "@commander-js/extra-typings";

export const shells = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof shells)[number];

interface Level {
  /** The subcommands typed so far, for example `sessions show`. */
  path: string;
  words: readonly { word: string; description: string }[];
}

export function completionScript(shell: Shell, program: CommandUnknownOpts): string {
  const levels = levelsOf(program, "", optionsOf(program));
  switch (shell) {
    case "bash":
      return bash(levels);
    case "zsh":
      return `autoload -U +X bashcompinit && bashcompinit\n${bash(levels)}`;
    case "fish":
      return fish(levels);
  }
}

function levelsOf(command: CommandUnknownOpts, path: string, globals: Level["words"]): Level[] {
  const children = command.commands.map((child) => ({
    word: child.name(),
    description: child.description(),
  }));
  const own = path === "" ? [] : optionsOf(command);
  const below = command.commands.flatMap((child) =>
    levelsOf(child, `${path} ${child.name()}`.trim(), globals),
  );
  return [{ path, words: [...children, ...own, ...globals] }, ...below];
}

function optionsOf({ options }: CommandUnknownOpts): Level["words"] {
  return options.flatMap(({ long, description }) => (long ? [{ word: long, description }] : []));
}

/** Follows the subcommands on the line, then offers the words of that level. */
function bash(levels: readonly Level[]): string {
  const paths = levels.filter(({ path }) => path !== "").map(({ path }) => `"${path}"`);
  const cases = levels.map(
    ({ path, words }) => `    "${path}") words="${words.map(({ word }) => word).join(" ")}" ;;`,
  );
  return `_concierge() {
  local path="" next word words=""
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    next="\${path:+$path }$word"
    case "$next" in
      ${paths.join("|")}) path="$next" ;;
    esac
  done
  case "$path" in
${cases.join("\n")}
  esac
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -F _concierge concierge
`;
}

function fish(levels: readonly Level[]): string {
  const lines = levels.flatMap(({ path, words }) =>
    words.map(({ word, description }) => {
      const condition = path === "" ? "__fish_use_subcommand" : conditionOf(path, levels);
      const what = word.startsWith("--") ? `-l ${word.slice(2)}` : `-a ${word}`;
      return `complete -c concierge -n ${quote(condition)} ${what} -d ${quote(description)}`;
    }),
  );
  return `complete -c concierge -f\n${lines.join("\n")}\n`;
}

/** All words of the path are on the line, and none of the next level yet. */
function conditionOf(path: string, levels: readonly Level[]): string {
  const seen = path.split(" ").map((word) => `__fish_seen_subcommand_from ${word}`);
  const below = levels.flatMap((level) =>
    level.path.startsWith(`${path} `) ? [level.path.slice(path.length + 1)] : [],
  );
  const notBelow = below.length > 0 ? [`not __fish_seen_subcommand_from ${below.join(" ")}`] : [];
  return [...seen, ...notBelow].join("; and ");
}

function quote(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}
