import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { createProgram } from "../program.ts";
import { completionScript } from "./scripts.ts";

/** What bash offers for a line whose last word is being typed. */
function complete(...words: string[]): string[] {
  const script = `${completionScript("bash", createProgram())}
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _concierge; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const printed = execFileSync("bash", ["-c", script, "bash", "concierge", ...words], { encoding: "utf8" });
  return printed.split("\n").filter(Boolean);
}

describe("completion in bash", () => {
  it.each([
    [["st"], ["start", "stop"]],
    [["sessions", "pre"], ["prepare"]],
    [["logs", "--fo"], ["--follow"]],
    [["ps", "--js"], ["--json"]],
    [
      ["--json", "sessions", "show", "--pro"],
      ["--probe", "--profile"],
    ],
    [["keys", "revoke", "key_1", "--u"], ["--url"]],
  ])("of %j offers %j", (words, wanted) => {
    expect(complete(...words)).toEqual(wanted);
  });
});

it("every command and option is in the scripts of zsh and fish", () => {
  const zsh = completionScript("zsh", createProgram());
  expect(zsh).toContain("bashcompinit");
  const fish = completionScript("fish", createProgram());
  expect(fish).toContain("complete -c concierge -n '__fish_use_subcommand' -a start -d 'start a task");
  expect(fish).toContain("-l max-duration");
  expect(fish).toMatch(
    /-n '__fish_seen_subcommand_from sessions; and not __fish_seen_subcommand_from list show .*' -a extend/,
  );
});

it("every command in the contract exists", () => {
  const names = createProgram().commands.map((command) => command.name());
  const contract =
    "start stop continue ps show logs watch exec sessions pool metrics reap flags keys doctor login dev completion";
  expect(names).toEqual(expect.arrayContaining(contract.split(" ")));
});
