import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type GitServer, startGitServer } from "../testing/git-server.ts";
import { type Concierge, startConcierge } from "../testing/stack.ts";

/** `STOP_RACES=1000` runs all of them; every run does a share. */
const races = Number(process.env.STOP_RACES ?? 60);
const lanes = 6;

let concierge: Concierge;
let git: GitServer;
beforeAll(async () => {
  [concierge, git] = await Promise.all([
    startConcierge({ apiProcesses: 2, reapEveryMs: 5000 }),
    startGitServer(),
  ]);
});
afterAll(async () => {
  await concierge[Symbol.asyncDispose]();
  await git.close();
});

interface Race {
  repo: string;
  /** The result: how the stop was answered, and how the task ended. */
  acknowledged: Date | undefined;
  status: string;
  pushed: boolean;
}

describe(`${races} stops at random moments`, () => {
  it("of tasks that push at random moments: after an acknowledged stop no ref moves and nothing lives", async () => {
    const results: Race[] = [];
    await Promise.all(
      Array.from({ length: lanes }, (_, lane) => run(lane, Math.ceil(races / lanes), results)),
    );

    expect(results.length).toBeGreaterThanOrEqual(races);
    for (const { repo, acknowledged, status, pushed } of results) {
      const moves = git.pushes.filter((push) => push.repo === repo);
      expect(moves.length, repo).toBe(pushed ? 1 : 0);
      expect(pushed, repo).toBe(status === "succeeded");
      if (acknowledged)
        expect(
          moves.filter(({ at }) => at > acknowledged),
          repo,
        ).toEqual([]);
    }
    // Both must have won some, or there was no race.
    const won = (wanted: string) => results.filter(({ status }) => status === wanted).length;
    console.error(`races: ${results.length}, stopped ${won("stopped")}, pushed ${won("succeeded")}`);
    expect(won("stopped")).toBeGreaterThan(0);
    expect(won("succeeded")).toBeGreaterThan(0);
    expect(won("stopped") + won("succeeded")).toBe(results.length);
  }, 3_600_000);
});

/** One task after another in a session, so that the sandbox is ready and the race is about the push. */
async function run(lane: number, count: number, results: Race[]): Promise<void> {
  const { client } = concierge;
  // The winner moves the next stop in the other's favour, so that it stays close to the push on a machine of any speed.
  let aroundMs = 500;
  for (let i = 0; i < count; i++) {
    const repo = `race-${lane}-${i}`;
    const { url } = git.createRepo(repo, { files: { "README.md": "hello\n" } });
    // The script itself also tries to push, without a credential.
    const script = `for n in $(seq 1 ${between(1, 4)}); do echo $n >> work; git push -q origin HEAD 2>/dev/null; sleep 0.0${between(0, 9)}; done`;
    const { id } = await client.start(script, {
      sessionKey: `lane-${lane}`,
      repo: { url, branch: "work", username: git.username, token: git.token },
    });
    await client.until(id, ({ status }) => status !== "queued" && status !== "provisioning");
    await new Promise((resolve) => setTimeout(resolve, aroundMs * (0.4 + 1.2 * Math.random())));
    const answer = await client.request("POST", `/v1/tasks/${id}/stop`);
    const acknowledged = answer.status === 200 ? new Date() : undefined;
    const task = await client.ended(id, 120_000);
    results.push({ repo, status: task.status, acknowledged, pushed: task.result?.pushed ?? false });
    aroundMs *= task.status === "stopped" ? 1.3 : 0.8;
    if (task.status === "stopped") await expectNothingAlive(lane, id);
  }
}

/** Another task in the same sandbox looks for what the stopped one started. */
async function expectNothingAlive(lane: number, stopped: string): Promise<void> {
  const { client } = concierge;
  const look = `grep -lz CONCIERGE_TASK=${stopped} /proc/[0-9]*/environ 2>/dev/null | wc -l`;
  const { id } = await client.start(look, { sessionKey: `lane-${lane}` });
  expect(await client.ended(id)).toMatchObject({ status: "succeeded", sandbox: { origin: "reused" } });
  expect(String(await client.output(id)), stopped).toBe("0\n");
}

function between(low: number, high: number): number {
  return low + Math.floor(Math.random() * (high - low + 1));
}
