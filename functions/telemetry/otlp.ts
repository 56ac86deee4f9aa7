/** The OpenTelemetry SDK, loaded only if an endpoint is set. It reads `OTEL_EXPORTER_OTLP_*` itself. */
import type { MetricName } from "@concierge/core";
import { serviceOf } from "@concierge/core";
import {
  type Context,
  type Counter,
  type Histogram,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import {
  AggregationTemporalityPreference,
  OTLPMetricExporter,
} from "@opentelemetry/exporter-metrics-otlp-http";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { MeterProvider, PeriodicExportingMetricReader } from "@opentelemetry/sdk-metrics";
import { BatchSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";
import type { SpanEnd, SpanOptions } from "./trace.ts";

export interface StartedSpan {
  traceId: string;
  traceparent: string;
  end(result: SpanEnd, endMs?: number): void;
}

export interface Telemetry {
  start(options: SpanOptions & { startMs?: number }): StartedSpan;
  count(name: MetricName, value?: number, dimensions?: Readonly<Record<string, string>>): void;
  flush(): Promise<void>;
}

/** How long the end of an invocation waits for the collector. */
const flushMs = 500;
/** After a collector was too slow, nobody waits for it for this long. */
const pauseMs = 30_000;
const exportTimeoutMs = 5000;
/** Spans are dropped beyond this, if the collector does not keep up. */
const queuedSpansMax = 2048;
const day = 24 * 60 * 60_000;

const kinds = {
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  producer: SpanKind.PRODUCER,
  consumer: SpanKind.CONSUMER,
  internal: SpanKind.INTERNAL,
} as const;

export function createTelemetry(stage: string): Telemetry {
  const resource = resourceFromAttributes({
    "service.name": serviceOf(stage),
    "faas.name": process.env.AWS_LAMBDA_FUNCTION_NAME ?? "",
    "deployment.environment.name": stage,
  });
  const processor = new BatchSpanProcessor({
    exporter: new OTLPTraceExporter({ timeoutMillis: exportTimeoutMs }),
    maxQueueSize: queuedSpansMax,
  });
  const tracer = new TracerProvider({ resource, spanProcessors: [processor] }).getTracer("concierge");
  // Only `flush` exports: a function may be frozen between invocations. Deltas, because many processes count.
  const reader = new PeriodicExportingMetricReader({
    exporter: new OTLPMetricExporter({
      timeoutMillis: exportTimeoutMs,
      temporalityPreference: AggregationTemporalityPreference.DELTA,
    }),
    exportIntervalMillis: day,
    exportTimeoutMillis: exportTimeoutMs,
  });
  const meter = new MeterProvider({ resource, readers: [reader] }).getMeter("concierge");
  const instruments = new Map<MetricName, Counter | Histogram>();
  let waitsAgainAt = 0;

  return {
    start({ name, kind = "internal", parent, attributes = {}, startMs }) {
      const options = { kind: kinds[kind], attributes, ...(startMs !== undefined && { startTime: startMs }) };
      const span = tracer.startSpan(name, options, contextOf(parent));
      const { traceId, spanId, traceFlags } = span.spanContext();
      return {
        traceId,
        traceparent: `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, "0")}`,
        end({ attributes: known = {}, isError }, endMs) {
          span.setAttributes(known);
          if (isError) span.setStatus({ code: SpanStatusCode.ERROR });
          span.end(endMs);
        },
      };
    },

    count(name, value = 1, dimensions = {}) {
      const instrument = instruments.get(name) ?? create(name);
      instruments.set(name, instrument);
      if ("record" in instrument) instrument.record(value, dimensions);
      else instrument.add(value, dimensions);
    },

    async flush() {
      const sending = Promise.allSettled([processor.forceFlush(), reader.forceFlush()]);
      if (Date.now() < waitsAgainAt) return;
      if ((await Promise.race([sending, later(flushMs)])) === "late") waitsAgainAt = Date.now() + pauseMs;
    },
  };

  function create(name: MetricName): Counter | Histogram {
    const isDuration = name.endsWith("_ms");
    const metric = `concierge.${name}`;
    return isDuration ? meter.createHistogram(metric, { unit: "ms" }) : meter.createCounter(metric);
  }
}

function contextOf(parent: string | undefined): Context {
  const [, traceId, spanId, flags] = parent?.split("-") ?? [];
  if (!traceId || !spanId) return ROOT_CONTEXT;
  const traceFlags = Number.parseInt(flags ?? "01", 16);
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags, isRemote: true });
}

function later(ms: number): Promise<"late"> {
  return new Promise((resolve) => void setTimeout(() => resolve("late"), ms).unref());
}
