/** Turns the log lines of the functions into text for a person: requests, task transitions and reaper passes. */
import { styleText } from "node:util";
import type { catalogue } from "@concierge/core";

type Style = Parameters<typeof styleText>[0];
type Entry = Readonly<Record<string, unknown>>;
type MetricName = keyof typeof catalogue;

interface Transition {
  metric: MetricName;
  describe: (entry: Entry) => string;
  style: Style;
  durationMs?: MetricName;
}

/** In the order in which they can happen within one entry. */
const transitions: readonly Transition[] = [
  { metric: "turn_queued", describe: () => "queued", style: "cyan" },
  {
    metric: "room_given",
    describe: ({ origin }) => `running, sandbox ${origin}`,
    style: "cyan",
    durationMs: "room_ms",
  },
  { metric: "push_granted", describe: () => "push granted", style: "cyan" },
  { metric: "push_refused", describe: () => "push refused", style: "yellow" },
  { metric: "stop_begun", describe: ({ cause }) => `stopping: ${cause}`, style: "yellow" },
  { metric: "turn_ended", describe: ({ outcome }) => String(outcome), style: "bold", durationMs: "turn_ms" },
];

/**
 * The text lines for one line of the stack. An entry that is neither a request, a transition, a reaper pass nor an
 * error has none. A line that is not JSON stays as it is.
 */
export function formatLogLine(line: string, useColor: boolean): string[] {
  const [, process = "", json = ""] = /^\[([^\]]+)\] (\{.*\})$/.exec(line) ?? [];
  const entry = parse(json);
  if (!entry) return [line];
  const source = process.replace(/#\d+$/, "").toLowerCase();
  return "_aws" in entry ? formatMetrics(entry, source) : [formatMessage(entry, source)];

  function formatMetrics(metrics: Entry, source: string): string[] {
    const at = (metrics._aws as { Timestamp: number }).Timestamp;
    const task = metrics.taskId === undefined ? "" : `${metrics.taskId} `;
    const request = metrics.http_requests === undefined ? [] : [formatRequest(metrics, source, at)];
    const changes = transitions
      .filter(({ metric }) => metrics[metric] !== undefined)
      .map(({ describe, style, durationMs }) =>
        row(at, "task", `${task}${paint(style, describe(metrics))}`, durationMs && metrics[durationMs]),
      );
    return [...request, ...changes];
  }

  function formatRequest({ method, path, status, durationMs }: Entry, source: string, at: number): string {
    return row(
      at,
      source,
      `${method} ${path} ${paint(statusStyle(Number(status)), String(status))}`,
      durationMs,
    );
  }

  function formatMessage({ time, level, message, report, error }: Entry, source: string): string {
    if (isEntry(report)) return row(time, source, `${message}: ${summarize(report)}`, report.durationMs);
    if (level !== "error") return row(time, source, String(message));
    const reason = isEntry(error) ? (error.message ?? error.name) : error;
    return row(time, source, paint("red", `${message}: ${reason}`));
  }

  function row(at: unknown, source: string, text: string, durationMs?: unknown): string {
    const time = new Date(at as string | number).toTimeString().slice(0, 8);
    const duration = durationMs === undefined ? "" : ` ${paint("dim", formatDuration(Number(durationMs)))}`;
    return `${paint("dim", time)} ${source.padEnd(7)} ${text}${duration}`;
  }

  function paint(style: Style, text: string): string {
    return useColor ? styleText(style, text, { validateStream: false }) : text;
  }
}

/** `--json-logs`: the entry as the function wrote it, without the name of its process. */
export function rawLogLine(line: string): string {
  return line.replace(/^\[[^\]]+\] (?=\{)/, "");
}

function parse(json: string): Entry | undefined {
  try {
    const value: unknown = JSON.parse(json);
    return isEntry(value) && ("_aws" in value || "message" in value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isEntry(value: unknown): value is Entry {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Every count in the report that is not zero, for example `tasks stopped 2, orphans 1`. */
function summarize(report: Entry): string {
  const counts = Object.entries(report).flatMap(([name, value]): [string, unknown][] => {
    if (name === "durationMs") return [];
    if (Array.isArray(value)) return [[name, value.length]];
    if (isEntry(value)) return Object.entries(value).map(([key, count]) => [`${name} ${key}`, count]);
    return [[name, value]];
  });
  const found = counts.filter(([, count]) => typeof count === "number" && count > 0);
  const text = found.map(([name, count]) => `${name} ${count}`).join(", ") || "nothing to do";
  return report.complete === false ? `${text}, out of time` : text;
}

function statusStyle(status: number): Style {
  if (status >= 500) return "red";
  return status >= 400 ? "yellow" : "green";
}

function formatDuration(ms: number): string {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}
