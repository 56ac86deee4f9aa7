/**
 * Traces and metrics over OTLP. Without `OTEL_EXPORTER_OTLP_ENDPOINT` nothing is loaded and every function here does
 * nothing. Spans carry names, ids, statuses and durations, never arguments, bodies or error texts.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { Metrics } from "@concierge/core";
import { learn } from "../context.ts";
import type { Telemetry } from "./otlp.ts";

export interface SpanOptions {
  name: string;
  kind?: "server" | "client" | "producer" | "consumer" | "internal";
  /** The `traceparent` of the parent. Default: the current span. */
  parent?: string | undefined;
  attributes?: Readonly<Record<string, string | number | undefined>>;
}

export interface SpanEnd {
  attributes?: Readonly<Record<string, string | number>>;
  isError?: boolean;
}

/** Version 00: trace, span and flags. Everything else is ignored, as if the caller had sent nothing. */
const traceparentPattern = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

let telemetry: Telemetry | undefined;
const current = new AsyncLocalStorage<string>();

/** Called once, while a function starts. */
export async function startTelemetry(stage: string, env: NodeJS.ProcessEnv): Promise<void> {
  if (!env.OTEL_EXPORTER_OTLP_ENDPOINT) return;
  telemetry = (await import("./otlp.ts")).createTelemetry(stage);
}

/** Only a value that is well formed, so that nobody can send anything else along. */
export function parseTraceparent(text: string | undefined): string | undefined {
  return text !== undefined && traceparentPattern.test(text) ? text : undefined;
}

/** Of the current span, to be passed on. */
export function currentTraceparent(): string | undefined {
  return current.getStore();
}

/** Runs work in a span. `end` may be called once with what is known at the end. */
export async function inSpan<T>(
  options: SpanOptions,
  work: (end: (result: SpanEnd) => void) => Promise<T>,
): Promise<T> {
  if (!telemetry) return await work(() => {});
  const span = telemetry.start({ parent: current.getStore(), ...options });
  let result: SpanEnd = {};
  try {
    return await current.run(span.traceparent, async () => {
      learn({ traceId: span.traceId });
      return await work((known) => {
        result = known;
      });
    });
  } catch (error) {
    result = { isError: true, attributes: { "error.type": error instanceof Error ? error.name : "unknown" } };
    throw error;
  } finally {
    span.end(result);
  }
}

/** Records something that has already happened, and returns its `traceparent`. */
export function recordSpan(options: SpanOptions & { startMs: number; endMs: number }): string | undefined {
  if (!telemetry) return undefined;
  const span = telemetry.start({ parent: current.getStore(), ...options });
  span.end({}, options.endMs);
  return span.traceparent;
}

/** Counts in both places. */
export function alsoOverOtlp(metrics: Metrics): Metrics {
  if (!telemetry) return metrics;
  const { count } = telemetry;
  return {
    count: (...args: Parameters<typeof count>) => {
      (metrics.count as typeof count)(...args);
      count(...args);
    },
  };
}

/** Every call of the provider is a span named after its method. */
export function traced<T extends object>(name: string, target: T): T {
  if (!telemetry) return target;
  return new Proxy(target, {
    get(object, property, receiver) {
      const value: unknown = Reflect.get(object, property, receiver);
      if (typeof value !== "function" || typeof property !== "string") return value;
      return (...args: unknown[]) =>
        inSpan({ name: `${name}.${property}`, kind: "client" }, async () => await value.apply(object, args));
    },
  });
}

/** Sends what was collected. Waits only briefly, and never fails: a collector must not delay or break anything. */
export async function flushTelemetry(): Promise<void> {
  await telemetry?.flush();
}
