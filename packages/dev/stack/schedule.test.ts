import { expect, test } from "vitest";
import { startFixture, until } from "../testing/stack.ts";
import { fixtureTopology, scheduled } from "../testing/topology.ts";

type Note = { at: "start" | "end"; event?: Record<string, unknown> };

test("a schedule runs at the start and then at its rate, never concurrently", async () => {
  await using stack = await startFixture({
    topology: fixtureTopology({ Reaper: scheduled }),
    reapEveryMs: 100,
  });
  const notes = await until(async () => {
    const found = await stack.notes<Note>();
    return found.length >= 6 && found.slice(0, 6);
  }, "three runs");
  expect(notes.map(({ at }) => at)).toEqual(["start", "end", "start", "end", "start", "end"]);
  expect(notes[0]?.event).toMatchObject({ source: "aws.scheduler", "detail-type": "Scheduled Event" });
});

test("a schedule has the topology's rate by default", async () => {
  await using stack = await startFixture({ topology: fixtureTopology({ Reaper: scheduled }) });
  await until(async () => (await stack.notes()).length === 2, "the first run");
  await stack.close();
  expect(await stack.notes()).toHaveLength(2);
});
