import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface Span {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: { key: string; value: Record<string, unknown> }[];
}

/** An OTLP collector on loopback that keeps what it gets. `answer` decides how it behaves. */
export async function startOtlpCollector() {
  const bodies: string[] = [];
  const spans: Span[] = [];
  const metrics = new Set<string>();
  const paths: string[] = [];
  const collector = { answer: (response: ServerResponse) => void response.writeHead(200).end("{}") };
  const server = createServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const text = Buffer.concat(parts).toString();
    paths.push(`${request.method} ${request.url} ${request.headers["content-type"]}`);
    bodies.push(text);
    const body = JSON.parse(text);
    for (const { scopeSpans } of body.resourceSpans ?? [])
      for (const scope of scopeSpans) spans.push(...scope.spans);
    for (const { scopeMetrics } of body.resourceMetrics ?? [])
      for (const scope of scopeMetrics) for (const { name } of scope.metrics) metrics.add(name);
    collector.answer(response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return Object.assign(collector, {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    bodies,
    spans,
    metrics,
    paths,
    async [Symbol.asyncDispose](): Promise<void> {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  });
}
