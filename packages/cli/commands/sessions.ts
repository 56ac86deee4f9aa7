import type { ExecRequest, Session } from "@concierge/client";
import { connect } from "../connection/connect.ts";
import { exitCodes } from "../errors.ts";
import { collectVariable, parseDuration, parseWholeNumber } from "../options.ts";
import type { Program } from "../program.ts";
import { formatAge, formatDuration, paint } from "../view/format.ts";
import { printFields, printJson, printLine, printNote, printTable } from "../view/table.ts";

export function registerSessions(program: Program): void {
  const sessions = program.command("sessions").description("list, prepare and delete sessions");

  sessions
    .command("list", { isDefault: true })
    .description("list your sessions, newest first")
    .option("--probe", "ask the provider for each sandbox's health")
    .option("-n, --limit <number>", "how many, at most 100", parseWholeNumber, 20)
    .option("--cursor <cursor>", "the next page")
    .action(async ({ probe, limit, cursor }, command) => {
      const options = command.optsWithGlobals();
      const client = await connect(options);
      const page = await client.sessions.list({ limit, probe, ...(cursor && { cursor }) });
      if (options.json) return printJson(page);
      printTable(["SESSION", "SANDBOX", "STATE", "HEALTH", "IDLE", "TASK"], page.items.map(rowOf));
      if (page.cursor) printNote(`More: concierge sessions --cursor ${page.cursor}`);
    });

  sessions
    .command("show")
    .description("show a session")
    .argument("<session>", "the session's key")
    .option("--probe", "ask the provider for the sandbox's health")
    .action(async (key, { probe }, command) => {
      const options = command.optsWithGlobals();
      const client = await connect(options);
      show(await client.sessions.get(key, { probe }), options.json);
    });

  sessions
    .command("prepare")
    .description("create a session, or get its sandbox ready")
    .argument("<session>", "the session's key")
    .action(async (key, _, command) => {
      const options = command.optsWithGlobals();
      const client = await connect(options);
      show(await client.sessions.prepare(key), options.json);
    });

  sessions
    .command("extend")
    .description("keep an idle sandbox for longer")
    .argument("<session>", "the session's key")
    .argument("<time>", "how long, for example 2h", parseDuration)
    .action(async (key, durationMs, _, command) => {
      const options = command.optsWithGlobals();
      const client = await connect(options);
      show(await client.sessions.extend(key, durationMs), options.json);
    });

  sessions
    .command("reset")
    .description("start a new conversation with the agent in the same sandbox")
    .argument("<session>", "the session's key")
    .action(async (key, _, command) => {
      const options = command.optsWithGlobals();
      const client = await connect(options);
      show(await client.sessions.reset(key), options.json);
    });

  sessions
    .command("delete")
    .description("delete a session and its sandbox")
    .argument("<session>", "the session's key")
    .action(async (key, _, command) => {
      const options = command.optsWithGlobals();
      const client = await connect(options);
      await client.sessions.delete(key);
      options.json ? printJson({ deleted: key }) : printLine(`${key} deleted`);
    });

  program
    .command("exec")
    .description("run a command in a session's sandbox: concierge exec default -- ls -la")
    .argument("<session>", "the session's key")
    .argument("<command...>", "the command and its arguments, after `--`")
    .option("--cwd <directory>", "where to run it")
    .option(
      "-e, --env <name[=value]>",
      "a variable for it; NAME alone takes this environment's value",
      collectVariable,
    )
    .option("--timeout <time>", "kill it after this time (default 60s, at most 10m)", parseDuration)
    .action(async (key, [file = "", ...args], { cwd, env, timeout }, command) => {
      const options = command.optsWithGlobals();
      const client = await connect(options);
      const request: ExecRequest = {
        command: file,
        args,
        ...(cwd && { cwd }),
        ...(env && { env }),
        ...(timeout !== undefined && { timeoutMs: timeout }),
      };
      const result = await client.sessions.exec(key, request);
      if (result.exitCode !== 0) process.exitCode = exitCodes.failed;
      if (options.json) return printJson(result);
      process.stdout.write(result.stdout);
      process.stderr.write(result.stderr);
      if (result.truncated) printNote("concierge: the output was longer; its end is missing");
      if (result.timedOut)
        printNote(`concierge: killed at its timeout, after ${formatDuration(result.durationMs)}`);
      else if (result.stopped) printNote("concierge: killed by a stop of the session's turn");
      else if (result.exitCode !== 0) printNote(`concierge: exit code ${result.exitCode}`);
    });
}

function rowOf({ key, sandbox, health, idleMs, lease }: Session): string[] {
  return [
    key,
    sandbox?.name ?? "-",
    sandbox?.state ?? "-",
    health ?? "-",
    idleMs === null ? "-" : formatAge(idleMs),
    lease?.taskId ?? "-",
  ];
}

function show(session: Session, json: true | undefined): void {
  if (json) {
    printJson(session);
    return;
  }
  const { sandbox, lease, health, idleMs } = session;
  printFields({
    session: session.key,
    ready: session.isReady ? paint("green", "yes") : "no",
    sandbox: sandbox ? `${sandbox.name} (${sandbox.state})` : "none",
    origin: sandbox?.origin ?? undefined,
    expires: sandbox?.expiresAt ?? undefined,
    health: health ?? undefined,
    task: lease ? `${lease.taskId}, turn ${lease.turn}` : undefined,
    idle: idleMs === null ? undefined : formatAge(idleMs),
    "kept until": session.keptUntil ?? undefined,
    created: session.createdAt,
    "last used": session.lastUsedAt,
  });
}
