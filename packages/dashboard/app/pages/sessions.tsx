import type { ExecResult, Session } from "@concierge/client";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { formatDuration } from "../format.ts";
import { useSignedIn } from "../signed-in.tsx";
import { Confirm, Failure, Loading, Time } from "../ui/parts.tsx";

const refreshEveryMs = 10_000;
const hourMs = 3_600_000;

export function Sessions() {
  const { client, may } = useSignedIn();
  const sessions = useQuery({
    queryKey: ["sessions"],
    queryFn: ({ signal }) => client.sessions.list({ limit: 100 }, { signal }),
    refetchInterval: refreshEveryMs,
  });
  const items = sessions.data?.items ?? [];
  return (
    <>
      <div className="head">
        <h1>Sessions</h1>
        <span className="muted" role="status">
          {summary(items)}
        </span>
      </div>
      {sessions.error && <Failure error={sessions.error} retry={() => void sessions.refetch()} />}
      {sessions.isPending && <Loading what="sessions" />}
      {sessions.isSuccess && items.length === 0 && (
        <section className="empty">
          <h2>No sessions yet</h2>
          <p>
            A session is a named sandbox. The first task of a session creates it, and later turns find its
            files again. {may("tasks:write") && <Link href="/tasks">Start a task</Link>}
          </p>
        </section>
      )}
      <div className="cards">
        {items.map((session) => (
          <SessionCard key={session.key} session={session} />
        ))}
      </div>
    </>
  );
}

function summary(items: readonly Session[]): string {
  const count = (test: (session: Session) => boolean) => items.filter(test).length;
  const busy = count(({ lease }) => lease !== null);
  const ready = count(({ sandbox, lease }) => sandbox?.state === "ready" && lease === null);
  const none = count(({ sandbox }) => sandbox === null);
  return `${busy} busy · ${ready} idle · ${none} without a sandbox`;
}

function SessionCard({ session }: { session: Session }) {
  const { client, may } = useSignedIn();
  const queries = useQueryClient();
  const [result, setResult] = useState("");
  const done = async (text: string) => {
    setResult(text);
    await queries.invalidateQueries({ queryKey: ["sessions"] });
  };
  const { key, sandbox, lease, environment } = session;
  const probe = useMutation({
    mutationFn: () => client.sessions.get(key, { probe: true }),
    onSuccess: ({ health }) => done(`The provider says: ${health ?? "no sandbox"}.`),
  });
  const extend = useMutation({
    mutationFn: () => client.sessions.extend(key, hourMs),
    onSuccess: () => done("Kept for another hour."),
  });
  const reset = useMutation({
    mutationFn: () => client.sessions.reset(key),
    onSuccess: () => done("The next turn starts a new conversation."),
  });
  const release = useMutation({
    mutationFn: () => client.sessions.delete(key),
    onSuccess: () => done("Released."),
  });
  const error = probe.error ?? extend.error ?? reset.error ?? release.error;

  return (
    <article className="card session" aria-label={`Session ${key}`}>
      <div className="head small">
        <h2 className="mono">{key}</h2>
        <State session={session} />
      </div>
      <dl className="pairs">
        <dt>Sandbox</dt>
        <dd className="mono">{sandbox?.name ?? "none"}</dd>
        <dt>Origin</dt>
        <dd>{sandbox?.origin ?? "–"}</dd>
        <dt>Idle</dt>
        <dd>{formatDuration(session.idleMs)}</dd>
        <dt>Expires</dt>
        <dd>
          <Time at={sandbox?.expiresAt} />
        </dd>
        <dt>Kept until</dt>
        <dd>
          <Time at={session.keptUntil} />
        </dd>
        <dt>Last used</dt>
        <dd>
          <Time at={session.lastUsedAt} />
        </dd>
        {lease && (
          <>
            <dt>Turn</dt>
            <dd>
              <Link href={`/tasks/${lease.taskId}`} className="mono">
                {lease.taskId}
              </Link>
            </dd>
          </>
        )}
      </dl>
      {environment && (
        <details>
          <summary>Environment</summary>
          <dl className="pairs">
            {Object.entries(environment.versions).map(([name, version]) => (
              <div key={name} className="contents">
                <dt>{name}</dt>
                <dd>{version}</dd>
              </div>
            ))}
          </dl>
        </details>
      )}
      <div className="actions start">
        <button type="button" disabled={probe.isPending} onClick={() => probe.mutate()}>
          {probe.isPending ? "Asking…" : "Check health"}
        </button>
        {may("sessions:write") && sandbox && (
          <Confirm
            title={`Keep ${key} for another hour?`}
            action="Keep it"
            trigger="Extend"
            triggerLabel={`Extend ${key}`}
            isDanger={false}
            onConfirm={() => extend.mutate()}
          >
            The sandbox stays for that hour although it is idle, and costs as long.
          </Confirm>
        )}
        {may("sessions:write") && (
          <Confirm
            title={`Reset ${key}?`}
            action="Reset"
            trigger="Reset"
            triggerLabel={`Reset ${key}`}
            disabled={lease !== null}
            onConfirm={() => reset.mutate()}
          >
            The agent forgets the conversation. The sandbox and its files stay.
          </Confirm>
        )}
        {may("sessions:write") && (
          <Confirm
            title={`Release ${key}?`}
            action="Release"
            trigger="Release"
            triggerLabel={`Release ${key}`}
            disabled={lease !== null}
            onConfirm={() => release.mutate()}
          >
            The sandbox and everything in it is deleted. What was not pushed is lost.
          </Confirm>
        )}
      </div>
      {result && <p role="status">{result}</p>}
      {error && <Failure error={error} />}
      {may("sessions:write") && <Exec sessionKey={key} />}
    </article>
  );
}

function State({ session: { sandbox, lease, health } }: { session: Session }) {
  const state = lease ? "running" : (sandbox?.state ?? "none");
  const look = {
    running: "running",
    ready: "succeeded",
    creating: "provisioning",
    releasing: "stopping",
    none: "queued",
  };
  const text = {
    running: "busy",
    ready: "idle",
    creating: "creating",
    releasing: "releasing",
    none: "no sandbox",
  };
  return (
    <span className={`status status-${look[state]}`}>
      <span className="dot" aria-hidden="true" />
      {text[state]}
      {health && <span className="badge">{health}</span>}
    </span>
  );
}

function Exec({ sessionKey }: { sessionKey: string }) {
  const { client } = useSignedIn();
  const [command, setCommand] = useState("");
  const [history, setHistory] = useState<{ id: number; command: string; result: ExecResult }[]>([]);
  const exec = useMutation({
    mutationFn: (text: string) => client.sessions.exec(sessionKey, { command: "bash", args: ["-c", text] }),
    onSuccess: (result, text) => {
      setHistory((entries) => [...entries, { id: Date.now(), command: text, result }].slice(-20));
      setCommand("");
    },
  });
  return (
    <details className="exec">
      <summary>Run a command</summary>
      {history.map(({ id, command: text, result }) => (
        <div key={id} className="exec-entry">
          <p className="mono">
            <span aria-hidden="true">$ </span>
            {text}
          </p>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard */}
          <pre tabIndex={0}>{`${result.stdout}${result.stderr}` || "(no output)"}</pre>
          <p className="hint">
            exit {result.exitCode ?? "–"} · {formatDuration(result.durationMs)}
            {result.truncated ? " · truncated" : ""}
            {result.timedOut ? " · timed out" : ""}
          </p>
        </div>
      ))}
      <form
        className="exec-form"
        onSubmit={(event) => {
          event.preventDefault();
          if (command) exec.mutate(command);
        }}
      >
        <input
          className="mono"
          aria-label={`Command in ${sessionKey}`}
          placeholder="ls -la"
          value={command}
          onChange={(event) => setCommand(event.target.value)}
        />
        <button type="submit" disabled={!command || exec.isPending}>
          {exec.isPending ? "Running…" : "Run"}
        </button>
      </form>
      {exec.error && <Failure error={exec.error} />}
    </details>
  );
}
