import { startConcierge } from "../testing/stack.ts";
import { createBareSandbox, launchBare, outputBytes } from "./bare.ts";
import { type Benchmark, type Figure, interleaved, percentile, timed } from "./harness.ts";

const rounds = 3;
const sizeMb = 50;
const sizeBytes = sizeMb * 1024 * 1024;
const line =
  "A line of output as an agent might write it, of about a hundred characters, and then the next one.";
const script = `yes '${line}' | head -c ${sizeBytes}\n`;

export const throughput: Benchmark = {
  name: "throughput",
  about: `${sizeMb} MB of output, stored and read back, against the bare SDK's log stream`,
  async run() {
    await using concierge = await startConcierge({ reapEveryMs: 3_600_000 });
    const { client } = concierge;
    const session = await createBareSandbox(concierge);
    const { id } = await client.start("true");
    await client.ended(id);
    const storedMs: number[] = [];
    const readMs: number[] = [];
    const bareMs: number[] = [];

    const withConcierge = async () => {
      const began = performance.now();
      const { turn } = await client.continue(id, script);
      await client.ended(id, 300_000);
      storedMs.push(performance.now() - began);
      const response = await client.request("GET", `/v1/tasks/${id}/output?turn=${turn}`);
      assertWhole((await response.arrayBuffer()).byteLength);
      readMs.push(performance.now() - began);
    };
    const withSdk = async () => {
      bareMs.push(await timed(async () => assertWhole(await outputBytes(await launchBare(session, script)))));
    };
    await interleaved(rounds, [withConcierge, withSdk]);

    const baseline = { what: "SDK log stream", value: rate(bareMs) };
    const figure = (what: string, samples: number[]): Figure => ({
      what,
      unit: "MB/s",
      value: rate(samples),
      baseline,
    });
    return [
      figure("from POST to all of it stored", storedMs),
      figure("from POST to all of it stored and read", readMs),
    ];
  },
};

function rate(samples: readonly number[]): number {
  return sizeMb / (percentile(samples, 50) / 1000);
}

function assertWhole(bytes: number): void {
  if (bytes !== sizeBytes) throw new Error(`${bytes} bytes of ${sizeBytes} came`);
}
