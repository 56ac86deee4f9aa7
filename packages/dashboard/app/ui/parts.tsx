import { ConciergeError, isTerminal, type Task, type TaskStatus } from "@concierge/client";
import * as AlertDialog from "@radix-ui/react-alert-dialog";
import { type ReactNode, useEffect, useState, useSyncExternalStore } from "react";
import { formatExact, formatRelative } from "../format.ts";

/** The time, once a second, for all parts together. */
let now = Date.now();
const listeners = new Set<() => void>();
setInterval(() => {
  if (document.hidden) return;
  now = Date.now();
  for (const tell of listeners) tell();
}, 1_000);

export function useNow(): number {
  return useSyncExternalStore(
    (tell) => {
      listeners.add(tell);
      return () => listeners.delete(tell);
    },
    () => now,
  );
}

/** Relative, with the exact time on hover. */
export function Time({ at }: { at: string | null | undefined }) {
  const current = useNow();
  if (!at) return <span className="muted">–</span>;
  return (
    <time dateTime={at} title={formatExact(at)}>
      {formatRelative(at, current)}
    </time>
  );
}

const statusLabels: Readonly<Record<TaskStatus, string>> = {
  queued: "queued",
  provisioning: "provisioning",
  running: "running",
  finalizing: "finalizing",
  stopping: "stopping",
  succeeded: "succeeded",
  failed: "failed",
  stopped: "stopped",
  timed_out: "timed out",
};

export function Status({ status }: { status: TaskStatus }) {
  return (
    <span className={`status status-${status}`}>
      <span className="dot" aria-hidden="true" />
      {statusLabels[status]}
    </span>
  );
}

export function isActive(task: Task): boolean {
  return !isTerminal(task.status);
}

export function Loading({ what }: { what: string }) {
  return (
    <p className="muted loading" role="status">
      Loading {what}…
    </p>
  );
}

/** What went wrong, and what to do about it. */
export function Failure({ error, retry }: { error: unknown; retry?: () => void }) {
  return (
    <div role="alert" className="error">
      <p>{explain(error)}</p>
      {error instanceof ConciergeError && error.problem?.issues && (
        <ul>
          {error.problem.issues.map(({ path, message }) => (
            <li key={`${path}${message}`}>
              <code>{path}</code>: {message}
            </li>
          ))}
        </ul>
      )}
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

const advice: Readonly<Record<string, string>> = {
  connection_failed: "Check your network. The page keeps trying.",
  session_busy: "Wait for the session's turn to end, stop it, or choose another session.",
  no_room: "All sandboxes are in use. Release an idle session, or try again in a moment.",
  missing_scope: "Ask an admin for a key with this scope.",
  finalizing: "The push is already granted, so the turn ends by itself in a moment.",
  task_active: "Stop the task first, or wait until it has ended.",
  not_found: "It does not exist, has expired, or belongs to another user.",
};

export function explain(error: unknown): string {
  if (!(error instanceof ConciergeError)) return error instanceof Error ? error.message : String(error);
  return [error.detail, advice[error.code]].filter(Boolean).join(" ");
}

export function Offline() {
  const isOnline = useSyncExternalStore(
    (tell) => {
      for (const name of ["online", "offline"]) window.addEventListener(name, tell);
      return () => {
        for (const name of ["online", "offline"]) window.removeEventListener(name, tell);
      };
    },
    () => navigator.onLine,
  );
  if (isOnline) return null;
  return (
    <p className="banner" role="status">
      You are offline. What you see is from before; the page continues when the network is back.
    </p>
  );
}

interface ConfirmProps {
  title: string;
  children: ReactNode;
  /** What the button does, as a verb. */
  action: string;
  onConfirm(): void;
  trigger: string;
  triggerLabel?: string;
  disabled?: boolean;
  isDanger?: boolean;
}

/** A button whose action is confirmed first. */
export function Confirm({
  title,
  children,
  action,
  onConfirm,
  trigger,
  triggerLabel,
  disabled = false,
  isDanger = true,
}: ConfirmProps) {
  return (
    <AlertDialog.Root>
      <AlertDialog.Trigger asChild>
        <button
          type="button"
          className={isDanger ? "danger" : ""}
          disabled={disabled}
          aria-label={triggerLabel}
        >
          {trigger}
        </button>
      </AlertDialog.Trigger>
      <AlertDialog.Portal>
        <AlertDialog.Overlay className="overlay" />
        <AlertDialog.Content className="dialog">
          <AlertDialog.Title>{title}</AlertDialog.Title>
          <AlertDialog.Description asChild>
            <div className="muted">{children}</div>
          </AlertDialog.Description>
          <div className="actions">
            <AlertDialog.Cancel asChild>
              <button type="button">Cancel</button>
            </AlertDialog.Cancel>
            <AlertDialog.Action asChild>
              <button type="button" className={isDanger ? "danger solid" : "primary"} onClick={onConfirm}>
                {action}
              </button>
            </AlertDialog.Action>
          </div>
        </AlertDialog.Content>
      </AlertDialog.Portal>
    </AlertDialog.Root>
  );
}

export function Copy({ text, label }: { text: string; label: string }) {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return;
    const timer = setTimeout(() => setCopied(false), 1_500);
    return () => clearTimeout(timer);
  }, [isCopied]);
  return (
    <button
      type="button"
      onClick={() => {
        navigator.clipboard?.writeText(text).then(
          () => setCopied(true),
          () => {},
        );
      }}
    >
      <span aria-live="polite">{isCopied ? "Copied" : label}</span>
    </button>
  );
}

export function Figure({ label, value, note }: { label: string; value: ReactNode; note?: ReactNode }) {
  return (
    <div className="figure">
      <dt>{label}</dt>
      <dd>{value}</dd>
      {note && <dd className="hint">{note}</dd>}
    </div>
  );
}

/** Wide tables scroll on narrow screens, by keyboard too. */
export function TableWrap({ label, children }: { label: string; children: ReactNode }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard
    <section className="table-wrap" aria-label={label} tabIndex={0}>
      {children}
    </section>
  );
}
