import { startConcierge } from "../fixtures/stack.ts";
import { createBareSandbox, firstOutput, launchBare } from "./bare.ts";
import { type Benchmark, type Figure, interleaved, percentile, timed } from "./harness.ts";
import { firstOutputOf } from "./turn.ts";

const rounds = 15;
const script = "echo started\n";

export const latency: Benchmark = {
  name: "latency",
  about: "from POST to the first output a reader gets, in a new sandbox and in a reused one",
  async run() {
    await using concierge = await startConcierge({ reapEveryMs: 3_600_000 });
    const { client, endpoints } = concierge;
    const ours = { cold: [] as number[], reused: [] as number[] };
    const bare = { cold: [] as number[], reused: [] as number[] };

    /** A task in a sandbox of its own, then a second turn in the same. */
    const withConcierge = async () => {
      let id = "";
      const coldMs = await timed(async () => {
        const task = await client.start(script);
        id = task.id;
        await firstOutputOf(client, task);
      });
      await client.ended(id);
      const reusedMs = await timed(async () => firstOutputOf(client, await client.continue(id, script)));
      const { sandbox } = await client.ended(id);
      if (sandbox?.origin !== "reused") throw new Error(`the second turn's sandbox was ${sandbox?.origin}`);
      ours.cold.push(coldMs);
      ours.reused.push(reusedMs);
    };

    const withSdk = async () => {
      const began = performance.now();
      const session = await createBareSandbox(endpoints.sandbox);
      await firstOutput(await launchBare(session, script));
      bare.cold.push(performance.now() - began);
      bare.reused.push(await timed(async () => firstOutput(await launchBare(session, script))));
      await session.stop();
    };

    await withConcierge();
    await withSdk();
    for (const samples of [ours.cold, ours.reused, bare.cold, bare.reused]) samples.length = 0;
    await interleaved(rounds, [withConcierge, withSdk]);

    const against = (origin: "cold" | "reused", what: string): Figure => ({
      what: `first output, ${origin} sandbox, p50`,
      unit: "ms",
      value: percentile(ours[origin], 50),
      baseline: { what, value: percentile(bare[origin], 50) },
    });
    return [
      against("cold", "SDK create + command"),
      against("reused", "SDK command"),
      {
        what: "first output, reused against cold, p50",
        unit: "ms",
        value: percentile(ours.reused, 50),
        baseline: { what: "the same, cold", value: percentile(ours.cold, 50) },
      },
    ];
  },
};
