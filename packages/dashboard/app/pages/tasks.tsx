import type { Task, TaskStatus } from "@concierge/client";
import { keepPreviousData, useInfiniteQuery } from "@tanstack/react-query";
import { useDeferredValue, useState } from "react";
import { Link } from "wouter";
import { formatDuration, formatUsd } from "../format.ts";
import { useSignedIn } from "../signed-in.tsx";
import { Failure, isActive, Loading, Status, TableWrap, Time, useNow } from "../ui/parts.tsx";
import { StartButton, useStart } from "./start.tsx";

const statuses: readonly TaskStatus[] = [
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
const agents = ["claude", "codex", "cursor", "shell"] as const;

/** How often the list is read again. docs/scale.md states what this costs. */
const activeEveryMs = 5_000;
const quietEveryMs = 15_000;
const pageSize = 100;

export function Tasks() {
  const { client, may } = useSignedIn();
  const [status, setStatus] = useState<TaskStatus | "">("");
  const [session, setSession] = useState("");
  const [agent, setAgent] = useState("");
  const [text, setText] = useState("");
  const sessionKey = useDeferredValue(/^[A-Za-z0-9._-]{1,64}$/.test(session) ? session : "");
  const words = useDeferredValue(text.toLowerCase());

  const tasks = useInfiniteQuery({
    queryKey: ["tasks", status, sessionKey],
    queryFn: ({ pageParam, signal }) =>
      client.list(
        {
          limit: pageSize,
          ...(pageParam && { cursor: pageParam }),
          ...(status && { status }),
          ...(sessionKey && { sessionKey }),
        },
        { signal },
      ),
    initialPageParam: "",
    getNextPageParam: (page) => page.cursor,
    placeholderData: keepPreviousData,
    refetchInterval: ({ state }) =>
      state.data?.pages.some((page) => page.items.some(isActive)) ? activeEveryMs : quietEveryMs,
  });

  const all = tasks.data?.pages.flatMap(({ items }) => items) ?? [];
  const shown = all.filter((task) => (!agent || task.agent === agent) && contains(task, words));
  const isFiltered = status !== "" || session !== "" || agent !== "" || text !== "";
  if (tasks.isSuccess && all.length === 0 && !isFiltered) return <FirstTask />;

  return (
    <>
      <div className="head">
        <h1>Tasks</h1>
        <span className="muted" role="status">
          {all.filter(isActive).length} active · {shown.length}
          {tasks.hasNextPage ? "+" : ""} shown
        </span>
        {may("tasks:write") && <StartButton />}
      </div>
      <search className="filters">
        <select
          aria-label="Status"
          value={status}
          onChange={(event) => setStatus(event.target.value as TaskStatus | "")}
        >
          <option value="">Any status</option>
          {statuses.map((name) => (
            <option key={name} value={name}>
              {name.replace("_", " ")}
            </option>
          ))}
        </select>
        <select aria-label="Agent" value={agent} onChange={(event) => setAgent(event.target.value)}>
          <option value="">Any agent</option>
          {agents.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
        <input
          aria-label="Session"
          placeholder="Session"
          value={session}
          onChange={(event) => setSession(event.target.value)}
        />
        <input
          type="search"
          aria-label="Text in prompt, id or metadata"
          placeholder="Prompt, id, metadata"
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
      </search>
      {tasks.error && <Failure error={tasks.error} retry={() => void tasks.refetch()} />}
      {tasks.isPending ? <Loading what="tasks" /> : <List tasks={shown} />}
      {tasks.hasNextPage && (
        <button
          type="button"
          className="more"
          disabled={tasks.isFetchingNextPage}
          onClick={() => void tasks.fetchNextPage()}
        >
          {tasks.isFetchingNextPage ? "Loading…" : "Show older tasks"}
        </button>
      )}
    </>
  );
}

function List({ tasks }: { tasks: Task[] }) {
  if (tasks.length === 0) return <p className="empty muted">No task matches these filters.</p>;
  return (
    <TableWrap label="Tasks table">
      <table className="tasks">
        <thead>
          <tr>
            <th scope="col">Status</th>
            <th scope="col">Task</th>
            <th scope="col">Session</th>
            <th scope="col">Agent</th>
            <th scope="col" className="number">
              Duration
            </th>
            <th scope="col" className="number">
              Cost
            </th>
            <th scope="col">Started</th>
          </tr>
        </thead>
        <tbody>
          {tasks.map((task) => (
            <Row key={task.id} task={task} />
          ))}
        </tbody>
      </table>
    </TableWrap>
  );
}

function Row({ task }: { task: Task }) {
  return (
    <tr>
      <td>
        <Status status={task.status} />
      </td>
      <td className="prompt">
        <Link href={`/tasks/${task.id}`}>{firstLine(task.prompt)}</Link>
        {task.error && <span className="hint">{task.error.code.replaceAll("_", " ")}</span>}
      </td>
      <td className="mono">{task.sessionKey}</td>
      <td>{task.agent}</td>
      <td className="number">
        <Duration task={task} />
      </td>
      <td className="number">{task.usage.costUsd > 0 ? formatUsd(task.usage.costUsd) : "–"}</td>
      <td className="nowrap">
        <Time at={task.createdAt} />
      </td>
    </tr>
  );
}

export function Duration({ task }: { task: Task }) {
  const now = useNow();
  const startedAt = task.phases.findLast(({ status }) => status === "queued")?.at ?? task.createdAt;
  const end = task.endedAt && !isActive(task) ? Date.parse(task.endedAt) : now;
  return formatDuration(Math.max(0, end - Date.parse(startedAt)));
}

export function firstLine(text: string): string {
  // Prompts often start with a heading or a shell comment.
  const line =
    text
      .trim()
      .split("\n", 1)[0]
      ?.replace(/^#+\s+/, "") ?? "";
  return line.length > 120 ? `${line.slice(0, 120)}…` : line || "(empty)";
}

function contains(task: Task, words: string): boolean {
  if (!words) return true;
  const fields = [task.prompt, task.id, ...Object.entries(task.metadata).flat()];
  return fields.some((field) => field.toLowerCase().includes(words));
}

const samplePrompt = `for i in 1 2 3 4 5; do
  printf '\\033[32mstep %s\\033[0m of 5\\n' "$i"
  sleep 1
done
echo "This ran in a sandbox. Continue me: ls -la"`;

/** The first screen of a fresh stack. */
function FirstTask() {
  const { may } = useSignedIn();
  const start = useStart();
  return (
    <section className="empty">
      <h1>No tasks yet</h1>
      <p>
        A task is one job for an agent. It runs in a sandbox that its session keeps, so the next turn finds
        the files again. You can watch it, stop it with proof, and continue it.
      </p>
      {may("tasks:write") ? (
        <div className="actions center">
          <button
            type="button"
            className="primary"
            disabled={start.isPending}
            onClick={() => start.mutate({ prompt: samplePrompt, agent: "shell", sessionKey: "sample" })}
          >
            {start.isPending ? "Starting…" : "Start a sample task"}
          </button>
          <StartButton />
        </div>
      ) : (
        <p className="muted">Your key may look at tasks but not start them.</p>
      )}
      {start.error && <Failure error={start.error} />}
    </section>
  );
}
