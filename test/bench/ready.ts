import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Dev, startDev } from "../testing/dev.ts";
import { type Benchmark, percentile, timed } from "./harness.ts";

const rounds = 3;

export const ready: Benchmark = {
  name: "ready",
  about: "from `npm run dev` to its ready line, on a fresh data dir and again on the same",
  async run() {
    const firstMs: number[] = [];
    const againMs: number[] = [];
    for (let round = 0; round < rounds; round++) {
      const dataDir = await mkdtemp(join(tmpdir(), "concierge-bench-"));
      try {
        firstMs.push(await startMs(dataDir));
        againMs.push(await startMs(dataDir));
      } finally {
        await rm(dataDir, { recursive: true, force: true });
      }
    }
    const first = percentile(firstMs, 50);
    return [
      { what: "on a fresh data dir, p50", unit: "ms", value: first },
      {
        what: "on the same again, p50",
        unit: "ms",
        value: percentile(againMs, 50),
        baseline: { what: "the fresh one", value: first },
      },
    ];
  },
};

async function startMs(dataDir: string): Promise<number> {
  let dev: Dev | undefined;
  const ms = await timed(async () => {
    dev = await startDev({ dataDir });
  });
  await dev?.end("SIGTERM");
  return ms;
}
