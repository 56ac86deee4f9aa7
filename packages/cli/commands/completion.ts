import { Argument } from "@commander-js/extra-typings";
import { completionScript, shells } from "../completion/scripts.ts";
import type { Program } from "../program.ts";

export function registerCompletion(program: Program): void {
  program
    .command("completion")
    .description("print a completion script: source <(concierge completion bash)")
    .addArgument(new Argument("<shell>", "your shell").choices(shells))
    .action((shell) => void process.stdout.write(completionScript(shell, program)));
}
