import type { Task } from "@concierge/client";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { Link } from "wouter";
import { formatCount, formatDuration, formatUsd } from "../format.ts";
import { useSignedIn } from "../signed-in.tsx";
import { Confirm, Copy, Failure, Figure, isActive, Loading, Status, Time, useNow } from "../ui/parts.tsx";
import { Terminal, type TerminalHandle } from "../ui/terminal.tsx";
import { StopMoments, Timeline } from "../ui/timeline.tsx";
import { useEvents, type Watched } from "../use-events.ts";
import { firstLine } from "./tasks.tsx";

export function TaskPage({ id }: { id: string }) {
  const { client } = useSignedIn();
  const task = useQuery({ queryKey: ["task", id], queryFn: ({ signal }) => client.get(id, { signal }) });
  if (task.data) return <Known task={task.data} />;
  if (!task.error) return <Loading what="the task" />;
  return (
    <>
      <Failure error={task.error} retry={() => void task.refetch()} />
      <p>
        <Link href="/tasks">All tasks</Link>
      </p>
    </>
  );
}

function Known({ task }: { task: Task }) {
  const { client, may, url } = useSignedIn();
  const queries = useQueryClient();
  const terminal = useRef<TerminalHandle>(null);
  const refresh = () => void queries.invalidateQueries({ queryKey: ["task", task.id] });
  const watched = useEvents(task.id, task.turn, terminal, refresh);
  const [requestedAt, setRequestedAt] = useState<number>();
  const stop = useMutation({
    mutationFn: () => {
      setRequestedAt(Date.now());
      return client.stop(task.id);
    },
    onSuccess: (stopped) => queries.setQueryData(["task", task.id], stopped),
    onSettled: refresh,
  });
  const isRunning = isActive(task);

  return (
    <article className="task">
      <nav aria-label="Breadcrumb" className="crumbs">
        <Link href="/tasks">Tasks</Link> <span aria-hidden="true">/</span>{" "}
        <span className="mono">{task.id}</span>
      </nav>
      <div className="head">
        <h1 className="title">{firstLine(task.prompt)}</h1>
        <span aria-live="polite">
          <Status status={task.status} />
        </span>
        <div className="actions">
          <Copy text={asCurl(url, task)} label="Copy as curl" />
          {may("tasks:write") && isRunning && (
            <Confirm
              title="Stop this task?"
              action="Stop it"
              trigger={stop.isPending || task.status === "stopping" ? "Stopping…" : "Stop"}
              disabled={stop.isPending || task.status === "stopping"}
              onConfirm={() => stop.mutate()}
            >
              Every process of this turn is killed, and nothing is pushed any more. The sandbox and its files
              stay.
            </Confirm>
          )}
        </div>
      </div>
      {stop.error && <Failure error={stop.error} />}
      {watched.lost && (
        <p className="banner" role="status">
          Connection lost. Trying again… {watched.lost}
        </p>
      )}
      <StopMoments task={task} requestedAt={requestedAt} />
      <Outcome task={task} />
      <div className="columns">
        <div className="main-column">
          <section className="card" aria-label="Phases">
            <h2>Phases{task.turn > 1 && <span className="muted"> · turn {task.turn}</span>}</h2>
            <Timeline task={task} steps={watched.steps} />
          </section>
          <Blocks watched={watched} />
          <h2>Output</h2>
          <Terminal ref={terminal} label="Output" />
          <AsText task={task} />
          {may("tasks:write") && !isRunning && <Continue task={task} />}
        </div>
        <Facts task={task} />
      </div>
    </article>
  );
}

/** Escape sequences that set colours or move the cursor, which text has no use for. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is removed
const escapes = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)/g;
const textMaxChars = 100_000;

/** The end of the output as text, for screen readers and for copying. */
function AsText({ task }: { task: Task }) {
  const { client } = useSignedIn();
  const [isOpen, setOpen] = useState(false);
  const output = useQuery({
    queryKey: ["output", task.id, task.turn, task.status],
    queryFn: async ({ signal }) =>
      (await client.output(task.id, { signal })).slice(-textMaxChars).replaceAll(escapes, ""),
    enabled: isOpen,
    gcTime: 0,
  });
  return (
    <details className="as-text" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Output as text</summary>
      {output.error && <Failure error={output.error} />}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard */}
      <pre tabIndex={0}>{output.data ?? "Loading…"}</pre>
    </details>
  );
}

function Outcome({ task }: { task: Task }) {
  return (
    <>
      {task.error && task.error.code !== "stopped_by_user" && (
        <p className="error" role="status">
          <strong>{task.error.code.replaceAll("_", " ")}</strong>: {task.error.detail}
        </p>
      )}
      {task.notices.map(({ code, detail, turn }) => (
        <p key={`${turn}${code}${detail}`} className="notice">
          <strong>{code.replaceAll("_", " ")}</strong> (turn {turn}): {detail}
        </p>
      ))}
    </>
  );
}

function Blocks({ watched: { blocks, droppedBlocks } }: { watched: Watched }) {
  if (blocks.length === 0) return null;
  return (
    <section aria-label="Agent" className="blocks">
      <h2>Agent</h2>
      {droppedBlocks > 0 && (
        <p className="hint">{formatCount(droppedBlocks)} earlier messages are not shown.</p>
      )}
      {blocks.map(({ cursor, agent }) => (
        <Block key={cursor} agent={agent} />
      ))}
    </section>
  );
}

function Block({ agent }: { agent: Watched["blocks"][number]["agent"] }) {
  switch (agent.kind) {
    case "text":
      return <p className="block">{agent.text}</p>;
    case "tool_use":
      return (
        <details className="block tool">
          <summary>
            uses <code>{agent.name}</code>
          </summary>
          <pre>{agent.input}</pre>
        </details>
      );
    case "tool_result":
      return (
        <details className={`block tool ${agent.ok ? "" : "bad"}`}>
          <summary>{agent.ok ? "result" : "failed"}</summary>
          <pre>{agent.text}</pre>
        </details>
      );
    case "result":
      return <p className={`block result ${agent.ok ? "" : "bad"}`}>{agent.text}</p>;
  }
}

function Continue({ task }: { task: Task }) {
  const { client } = useSignedIn();
  const queries = useQueryClient();
  const [prompt, setPrompt] = useState("");
  const next = useMutation({
    mutationFn: () => client.continue(task.id, { prompt }),
    onSuccess: (continued) => {
      setPrompt("");
      queries.setQueryData(["task", task.id], continued);
    },
  });
  return (
    <form
      className="card continue"
      onSubmit={(event) => {
        event.preventDefault();
        if (prompt) next.mutate();
      }}
    >
      <label htmlFor="continue">Continue with the next turn</label>
      <textarea
        id="continue"
        rows={2}
        value={prompt}
        placeholder="The same sandbox, if it still exists. Secrets of the last turn are gone."
        onChange={(event) => setPrompt(event.target.value)}
      />
      {next.error && <Failure error={next.error} />}
      <div className="actions">
        <button type="submit" className="primary" disabled={!prompt || next.isPending}>
          {next.isPending ? "Continuing…" : "Continue"}
        </button>
      </div>
    </form>
  );
}

function Facts({ task }: { task: Task }) {
  const { usage, result, sandbox, limits, metadata } = task;
  return (
    <aside className="facts" aria-label="Details">
      <section className="card">
        <h2>Limits</h2>
        <Limits task={task} />
      </section>
      <section className="card">
        <h2>Cost</h2>
        <dl className="pairs">
          <dt>Reported</dt>
          <dd>
            {formatUsd(usage.costUsd)}
            {limits.maxCostUsd !== undefined && (
              <span className="muted"> of {formatUsd(limits.maxCostUsd)}</span>
            )}
          </dd>
          <dt>Tokens</dt>
          <dd>
            {formatCount(usage.inputTokens)} in, {formatCount(usage.outputTokens)} out
          </dd>
        </dl>
      </section>
      <section className="card">
        <h2>Where</h2>
        <dl className="pairs">
          <dt>Agent</dt>
          <dd>{task.agent}</dd>
          <dt>Session</dt>
          <dd className="mono">{task.sessionKey}</dd>
          <dt>Sandbox</dt>
          <dd className="mono">{sandbox?.name ?? "none yet"}</dd>
          <dt>Origin</dt>
          <dd>{sandbox ? `${origins[sandbox.origin]} (epoch ${sandbox.epoch})` : "–"}</dd>
          <dt>Afterwards</dt>
          <dd>{task.keepAlive ? "the sandbox is kept" : "the sandbox is released"}</dd>
        </dl>
      </section>
      {result && (
        <section className="card">
          <h2>Result</h2>
          <dl className="pairs">
            <dt>Exit code</dt>
            <dd>{result.exitCode ?? "–"}</dd>
            <dt>Branch</dt>
            <dd className="mono">{result.branch ?? "–"}</dd>
            <dt>Commit</dt>
            <dd className="mono">{result.commit?.slice(0, 12) ?? "–"}</dd>
            <dt>Pushed</dt>
            <dd>{result.pushed ? "yes" : "no"}</dd>
          </dl>
          {result.text && <pre className="text">{result.text}</pre>}
        </section>
      )}
      <section className="card">
        <h2>Prompt</h2>
        <pre className="text">{task.prompt}</pre>
        {Object.keys(metadata).length > 0 && (
          <dl className="pairs">
            {Object.entries(metadata).map(([name, value]) => (
              <Pair key={name} name={name} value={value} />
            ))}
          </dl>
        )}
      </section>
    </aside>
  );
}

function Pair({ name, value }: { name: string; value: string }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </>
  );
}

const origins = {
  reused: "the session's own, reused",
  resumed: "the session's own, resumed",
  warm: "a warm one from the pool",
  snapshot: "new, from the snapshot",
  cold: "new, from nothing",
} as const;

function Limits({ task }: { task: Task }) {
  const now = useNow();
  const isRunning = isActive(task);
  const leftMs = Math.max(0, Date.parse(task.deadlineAt) - now);
  const quietMs = Math.max(0, now - Date.parse(task.lastActivityAt));
  if (!isRunning) {
    return (
      <dl className="figures">
        <Figure label="Duration" value={formatDuration(task.limits.maxDurationMs)} />
        <Figure label="Silence" value={formatDuration(task.limits.inactivityMs)} />
        <Figure label="Ended" value={<Time at={task.endedAt} />} />
      </dl>
    );
  }
  const silenceLeftMs = task.limits.inactivityMs - quietMs;
  return (
    <div className="meters">
      <Meter label="Until the deadline" leftMs={leftMs} ofMs={task.limits.maxDurationMs} />
      {task.status === "running" && (
        <Meter
          label="Until silence counts"
          leftMs={Math.max(0, silenceLeftMs)}
          ofMs={task.limits.inactivityMs}
        />
      )}
    </div>
  );
}

function Meter({ label, leftMs, ofMs }: { label: string; leftMs: number; ofMs: number }) {
  return (
    <div>
      <div className="meter-head">
        <span>{label}</span>
        <span className="mono">{formatDuration(leftMs)}</span>
      </div>
      <meter min={0} max={ofMs} low={ofMs * 0.2} value={leftMs} aria-label={label} />
    </div>
  );
}

/** The key is a variable, so that what is pasted somewhere has no secret in it. */
function asCurl(url: string, task: Task): string {
  const { prompt, agent, sessionKey, keepAlive, limits, metadata } = task;
  const body = JSON.stringify({ prompt, agent, sessionKey, keepAlive, limits, metadata });
  return `curl ${url}/v1/tasks -H "authorization: Bearer $CONCIERGE_API_KEY" -H 'content-type: application/json' -d '${body.replaceAll("'", "'\\''")}'`;
}
