import { Option } from "@commander-js/extra-typings";
import { type Client, isTerminal, type StartRequest, type Task } from "@concierge/client";
import { connect } from "../connection/connect.ts";
import { CommandError, exitCodes, UsageError } from "../errors.ts";
import {
  collect,
  collectPair,
  collectVariable,
  type GlobalOptions,
  parseAmount,
  parseDuration,
  parseWholeNumber,
} from "../options.ts";
import type { Program } from "../program.ts";
import { firstLine, formatAge, formatDuration, formatStatus, formatUsd } from "../view/format.ts";
import { printFields, printJson, printLine, printNote, printTable } from "../view/table.ts";
import { totalMs } from "../view/task-view.ts";
import { watchTask } from "../watch/watch.ts";

const agents: readonly Task["agent"][] = ["claude", "codex", "cursor", "shell"];
const statuses: readonly Task["status"][] = [
  "queued",
  "provisioning",
  "running",
  "finalizing",
  "stopping",
  "succeeded",
  "failed",
  "stopped",
  "timed_out",
];
const repoTokenVariable = "CONCIERGE_REPO_TOKEN";
/** How long `stop` waits for the proof. */
const proofWaitMs = 120_000;

export function registerTasks(program: Program): void {
  program
    .command("start")
    .description("start a task; the prompt `-` is read from stdin")
    .argument("<prompt>", "what the agent has to do")
    .addOption(new Option("-a, --agent <agent>", "the agent; default from the server").choices(agents))
    .option("-s, --session <key>", 'the session (default "default")')
    .option("--repo <url>", `a git repository to work in; its token is read from ${repoTokenVariable}`)
    .option("--base-branch <branch>", "the branch to start from")
    .option("--branch <branch>", "the branch to push (default concierge/<task id>)")
    .option("--no-push", "do not push the result")
    .option("--repo-user <name>", "the user name for the repository (default x-access-token)")
    .option(
      "-e, --env <name[=value]>",
      "a variable for the agent; NAME alone takes this environment's value",
      collectVariable,
    )
    .option("--allow <host>", "a host that the sandbox may reach; repeatable", collect)
    .option("--max-duration <time>", "end the turn after this time, for example 10m", parseDuration)
    .option("--inactivity <time>", "end the turn after this time without output", parseDuration)
    .option("--max-cost <usd>", "end the task at this cost", parseAmount)
    .option("--no-keep-alive", "delete the sandbox after the turn")
    .option("--webhook <url>", "send a signed message to this URL when a turn ends")
    .option("--metadata <key=value>", "stored with the task; repeatable", collectPair)
    .option("-w, --watch", "show the task until it ends")
    .action(async (prompt, _, command) => {
      const options = command.optsWithGlobals();
      const client = await connect(options);
      const request = startRequest(await readPrompt(prompt), options);
      await showStarted(client, await client.start(request), options);
    });

  program
    .command("continue")
    .description("give an ended task its next prompt")
    .argument("<task>", "the task's id")
    .argument("<prompt>", "what the agent has to do next")
    .option(
      "-e, --env <name[=value]>",
      "a variable for the agent; those of the last turn are gone",
      collectVariable,
    )
    .option("--repo-user <name>", "the user name for the repository (default x-access-token)")
    .option("--max-duration <time>", "end the turn after this time", parseDuration)
    .option("--inactivity <time>", "end the turn after this time without output", parseDuration)
    .option("--max-cost <usd>", "end the task at this cost, all turns together", parseAmount)
    .option("-w, --watch", "show the task until it ends")
    .action(async (id, prompt, _, command) => {
      const options = command.optsWithGlobals();
      const client = await connect(options);
      const token = process.env[repoTokenVariable];
      const task = await client.continue(id, {
        prompt: await readPrompt(prompt),
        ...limitsOf(options),
        ...(options.env && { env: options.env }),
        ...(token && { repo: { username: options.repoUser ?? "x-access-token", token } }),
      });
      await showStarted(client, task, options);
    });

  program
    .command("stop")
    .description("stop a task and wait for the proof that nothing of it runs")
    .argument("<task>", "the task's id")
    .option("--no-wait", "do not wait if the proof is still pending")
    .action(async (id, { wait }, command) => {
      const options = command.optsWithGlobals();
      const client = await connect(options);
      const stopped = await client.stop(id);
      const task = isTerminal(stopped.status) || !wait ? stopped : await waitForProof(client, id);
      if (options.json) printJson(task);
      else printLine(`${task.id} ${formatStatus(task.status)}${tookToStop(task)}`);
    });

  program
    .command("ps")
    .description("list your tasks, newest first")
    .addOption(new Option("--status <status>", "only tasks with this status").choices(statuses))
    .option("-s, --session <key>", "only tasks of this session")
    .option("-n, --limit <number>", "how many, at most 100", parseWholeNumber, 20)
    .option("--cursor <cursor>", "the next page")
    .action(async ({ status, session, limit, cursor }, command) => {
      const options = command.optsWithGlobals();
      const client = await connect(options);
      const page = await client.list({
        limit,
        ...(status && { status }),
        ...(session && { sessionKey: session }),
        ...(cursor && { cursor }),
      });
      if (options.json) return printJson(page);
      const header = ["TASK", "STATUS", "TURN", "AGENT", "SESSION", "AGE", "TIME", "COST", "PROMPT"];
      printTable(header, page.items.map(rowOf));
      if (page.cursor) printNote(`More: concierge ps --cursor ${page.cursor}`);
    });

  program
    .command("show")
    .description("show a task")
    .argument("<task>", "the task's id")
    .action(async (id, _, command) => {
      const options = command.optsWithGlobals();
      const client = await connect(options);
      const task = await client.get(id);
      if (options.json) printJson(task);
      else showTask(task);
    });
}

interface TaskOptions {
  agent?: Task["agent"] | undefined;
  session?: string | undefined;
  repo?: string | undefined;
  baseBranch?: string | undefined;
  branch?: string | undefined;
  push?: boolean;
  repoUser?: string | undefined;
  env?: Record<string, string> | undefined;
  allow?: string[] | undefined;
  maxDuration?: number | undefined;
  inactivity?: number | undefined;
  maxCost?: number | undefined;
  keepAlive?: boolean;
  webhook?: string | undefined;
  metadata?: Record<string, string> | undefined;
}

function startRequest(prompt: string, options: TaskOptions): StartRequest {
  const { agent, session, env, allow, keepAlive, webhook, metadata } = options;
  return {
    prompt,
    ...(agent && { agent }),
    ...(session && { sessionKey: session }),
    ...repoOf(options),
    ...limitsOf(options),
    ...(env && { env }),
    ...(allow && { network: { allow } }),
    ...(keepAlive === false && { keepAlive }),
    ...(webhook && { webhook: { url: webhook } }),
    ...(metadata && { metadata }),
  };
}

function repoOf(options: TaskOptions): Pick<StartRequest, "repo"> {
  const { repo: url, baseBranch, branch, push, repoUser: username } = options;
  const needsRepo = baseBranch || branch || username || push === false;
  if (!url && needsRepo)
    throw new UsageError("--base-branch, --branch, --repo-user and --no-push need --repo.");
  if (!url) return {};
  const token = process.env[repoTokenVariable];
  return {
    repo: {
      url,
      ...(baseBranch && { baseBranch }),
      ...(branch && { branch }),
      ...(push === false && { push }),
      ...(username && { username }),
      ...(token && { token }),
    },
  };
}

function limitsOf({ maxDuration, inactivity, maxCost }: TaskOptions): Pick<StartRequest, "limits"> {
  const limits = {
    ...(maxDuration !== undefined && { maxDurationMs: maxDuration }),
    ...(inactivity !== undefined && { inactivityMs: inactivity }),
    ...(maxCost !== undefined && { maxCostUsd: maxCost }),
  };
  return Object.keys(limits).length > 0 ? { limits } : {};
}

async function readPrompt(prompt: string): Promise<string> {
  if (prompt !== "-") return prompt;
  const chunks: Buffer[] = [];
  for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("utf8");
}

async function showStarted(
  client: Client,
  task: Task,
  { json, watch }: GlobalOptions & { watch?: boolean | undefined },
): Promise<void> {
  if (watch) process.exitCode = await watchTask(client, task, { json: json === true });
  else if (json) printJson(task);
  else {
    printLine(task.id);
    if (process.stdout.isTTY) printNote(`Watch it with \`concierge watch ${task.id}\`.`);
  }
}

async function waitForProof(client: Client, id: string): Promise<Task> {
  try {
    return await client.wait(id, { signal: AbortSignal.timeout(proofWaitMs) });
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
    const next = `Concierge keeps trying. \`concierge watch ${id}\` shows the end.`;
    throw new CommandError(
      `${id} is still stopping after ${formatDuration(proofWaitMs)}.`,
      exitCodes.failed,
      next,
    );
  }
}

function tookToStop({ timings }: Task): string {
  return timings.stopMs === null ? "" : ` in ${formatDuration(timings.stopMs)}`;
}

function rowOf(task: Task): string[] {
  const { id, status, turn, agent, sessionKey, createdAt, usage, prompt } = task;
  return [
    id,
    formatStatus(status),
    String(turn),
    agent,
    sessionKey,
    formatAge(Date.now() - Date.parse(createdAt)),
    isTerminal(status) ? formatDuration(totalMs(task)) : "-",
    formatUsd(usage.costUsd),
    firstLine(prompt, 80),
  ];
}

function showTask(task: Task): void {
  const { sandbox, error, result, usage, timings } = task;
  const tokens = usage.inputTokens + usage.outputTokens;
  printFields({
    task: task.id,
    status: formatStatus(task.status),
    turn: String(task.turn),
    agent: task.agent,
    session: task.sessionKey,
    sandbox: sandbox ? `${sandbox.name} (${sandbox.origin})` : undefined,
    prompt: firstLine(task.prompt, 200),
    created: task.createdAt,
    started: task.startedAt ?? undefined,
    ended: task.endedAt ?? undefined,
    deadline: isTerminal(task.status) ? undefined : task.deadlineAt,
    times: timesOf(timings),
    cost: `${formatUsd(usage.costUsd)}${tokens > 0 ? `, ${tokens} tokens` : ""}`,
    "exit code": result?.exitCode?.toString(),
    commit: result?.commit
      ? `${result.commit} on ${result.branch}${result.pushed ? ", pushed" : ""}`
      : undefined,
    error: error ? `${error.code}: ${error.detail}` : undefined,
    metadata: Object.entries(task.metadata)
      .map(([key, value]) => `${key}=${value}`)
      .join(", "),
  });
  for (const { code, detail, turn } of task.notices) printLine(`notice (turn ${turn}) ${code}: ${detail}`);
}

function timesOf(timings: Task["timings"]): string {
  return Object.entries(timings)
    .filter(([, ms]) => ms !== null)
    .map(([name, ms]) => `${name.replace("Ms", "")} ${formatDuration(ms ?? 0)}`)
    .join(", ");
}
