import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Client, createClient } from "../testing/client.ts";
import { type Concierge, startConcierge } from "../testing/stack.ts";

/** Only the reaper's first pass comes by itself; the test requests the others. */
const rarely = { reapEveryMs: 3_600_000 };

const halves = ["canary-of-alice", "7c1f5b2e90"] as const;
const canary = halves.join("-");

/** Leaves a marker everywhere one can write, and in the environment of every process. */
const leave = `
for place in /vercel/sandbox /tmp "$HOME" /dev/shm /var/tmp; do
  echo "$CANARY" > "$place/marker" 2>/dev/null && echo "left in $place"
done
sleep 1000 &
true`;

/** The marker is split, so that the search does not find itself. */
const look = `
half=${halves[0]}; word="$half-${halves[1]}"
grep -rls -- "$word" /vercel/sandbox /tmp "$HOME" /dev/shm /var/tmp
env | grep -c -- "$word" | grep -v '^0$' | sed 's/^/variables: /'
cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -q -- "$word" && echo "a process has it"
ls -d /vercel/sandbox/marker /tmp/marker "$HOME/marker" 2>/dev/null
echo looked`;

async function userOf({ client, url }: Concierge, userId: string): Promise<Client> {
  const { key } = await client.json("POST", "/v1/keys", { userId });
  return createClient({ url, apiKey: String(key) });
}

/** Runs a task in the session that every user has, unless another is named. */
async function run(user: Client, prompt: string, over: Record<string, unknown> = {}) {
  const { id } = await user.start(prompt, { sessionKey: "default", ...over });
  const { status, sandbox } = await user.ended(id, 60_000);
  const output = String(await user.output(id));
  return { id, status, origin: sandbox?.origin, name: sandbox?.name ?? "", output };
}

/** Alice works. Her markers must be there, or the test could not fail. */
async function leaveMarkers(user: Client, over: Record<string, unknown> = {}) {
  const left = await run(user, leave, { env: { CANARY: canary }, ...over });
  expect(left.status).toBe("succeeded");
  for (const place of ["/vercel/sandbox", "/tmp", "/home/vercel-sandbox"])
    expect(left.output).toContain(`left in ${place}\n`);
  return left;
}

const nothing = { status: "succeeded", output: "looked\n" };

describe("through the warm pool", () => {
  let concierge: Concierge;
  let alice: Client;
  let bob: Client;
  beforeAll(async () => {
    concierge = await startConcierge({ ...rarely, env: { POOL_WARM_TARGET: "1" } });
    [alice, bob] = await Promise.all([userOf(concierge, "alice"), userOf(concierge, "bob")]);
  });
  afterAll(async () => await concierge[Symbol.asyncDispose]());

  const warmed = async () => {
    const pool = async () => (await concierge.client.json("GET", "/v1/pool")).warm;
    if ((await pool()) === 0) await concierge.client.json("POST", "/v1/reap", {});
    // Two concurrent passes may each have requested one.
    await expect.poll(pool, { timeout: 20_000 }).toBeGreaterThan(0);
  };

  it("the user who left markers finds them: the search works", async () => {
    await warmed();
    const left = await leaveMarkers(alice);
    expect(left.origin).toBe("warm");
    const found = await run(alice, look, { env: { CANARY: canary } });
    expect(found).toMatchObject({ origin: "reused", name: left.name });
    for (const what of ["/vercel/sandbox/marker", "/tmp/marker", "variables: 1", "a process has it"])
      expect(found.output).toContain(`${what}\n`);
  });

  it("another user gets a fresh sandbox, during and after the first user's session", async () => {
    await warmed();
    const beside = await run(bob, look);
    expect(beside).toMatchObject({ ...nothing, origin: "warm" });
    expect((await alice.request("DELETE", "/v1/sessions/default")).status).toBe(204);
    await warmed();
    const carol = await userOf(concierge, "carol");
    expect(await run(carol, look)).toMatchObject({ ...nothing, origin: "warm" });
  });

  it("a turn's variable is not in the same user's next turn", async () => {
    const dora = await userOf(concierge, "dora");
    await run(dora, "true", { env: { CANARY: canary } });
    expect(await run(dora, look)).toMatchObject({ ...nothing, origin: "reused" });
  });

  it("sessions of the same name are separate and have separate sandboxes", async () => {
    const [erin, frank] = await Promise.all([userOf(concierge, "erin"), userOf(concierge, "frank")]);
    const running = await erin.start(`${leave}; echo all left; sleep 1000`, {
      sessionKey: "default",
      env: { CANARY: canary },
    });
    await expect
      .poll(async () => String(await erin.output(running.id)), { timeout: 20_000 })
      .toContain("all left");
    const { sandbox } = await erin.get(running.id);
    const other = await run(frank, look);
    expect(other).toMatchObject(nothing);
    expect(other.name).not.toBe(sandbox?.name);
    await erin.stop(running.id);
  });

  it("one user's resources do not exist for another, for every request", async () => {
    const { id, name } = await leaveMarkers(alice, { sessionKey: "mine" });
    const tries: [string, string, unknown?][] = [
      ["GET", "/v1/sessions/mine"],
      ["GET", "/v1/sessions/mine?probe=true"],
      ["POST", "/v1/sessions/mine/exec", { command: "cat", args: ["/tmp/marker"] }],
      ["POST", "/v1/sessions/mine/extend", { durationMs: 60_000 }],
      ["POST", "/v1/sessions/mine/reset"],
      ["DELETE", "/v1/sessions/mine"],
      ["GET", `/v1/tasks/${id}`],
      ["GET", `/v1/tasks/${id}/output`],
      ["POST", `/v1/tasks/${id}/continue`, { prompt: look }],
      ["POST", `/v1/tasks/${id}/stop`],
    ];
    for (const [method, path, body] of tries) {
      const answer = await bob.request(method, path, body);
      expect([method, path, answer.status]).toEqual([method, path, 404]);
      expect(await answer.text()).not.toContain(canary);
    }
    const listed = (await bob.json("GET", "/v1/sessions")) as { items: { key: string }[] };
    expect(listed.items.map(({ key }) => key)).toEqual(["default"]);
    expect(await alice.json("GET", "/v1/sessions/mine?probe=true")).toMatchObject({
      sandbox: { name },
      isReady: true,
      resetAt: null,
      keptUntil: null,
    });
    expect(await run(bob, look, { sessionKey: "mine" })).toMatchObject(nothing);
  });
});

describe("through the base snapshot", () => {
  it("built after another user's work contains nothing of it", async () => {
    const setup = "echo built > /vercel/sandbox/.base; echo built > /tmp/.base";
    await using concierge = await startConcierge({ ...rarely, env: { SANDBOX_SETUP: setup } });
    const { client } = concierge;
    const base = async () => await client.json("GET", "/v1/snapshot");
    await expect.poll(base, { timeout: 30_000 }).toMatchObject({ state: "ready" });
    const [alice, bob] = await Promise.all([userOf(concierge, "alice"), userOf(concierge, "bob")]);
    const before = await base();
    await leaveMarkers(alice);
    await client.json("POST", "/v1/snapshot");
    const isNew = { state: "ready", snapshotId: expect.not.stringMatching(`^${before.snapshotId}$`) };
    await expect.poll(base, { timeout: 30_000 }).toMatchObject(isNew);
    expect(await run(bob, `cat .base;${look}`)).toMatchObject({
      status: "succeeded",
      origin: "snapshot",
      output: "built\nlooked\n",
    });
  }, 60_000);
});

describe("through eviction", () => {
  it("at the cap a new user gets a fresh sandbox, and so does one who returns", async () => {
    await using concierge = await startConcierge({ ...rarely, env: { POOL_MAX_SANDBOXES: "1" } });
    const [alice, bob] = await Promise.all([userOf(concierge, "alice"), userOf(concierge, "bob")]);
    const left = await leaveMarkers(alice);
    const next = await run(bob, look);
    expect(next).toMatchObject({ ...nothing, origin: "cold" });
    expect(await concierge.provider.probe(left.name)).toEqual({ health: "gone" });
    const back = await run(alice, look);
    expect(back).toMatchObject({ ...nothing, origin: "cold" });
    expect(await concierge.provider.probe(next.name)).toEqual({ health: "gone" });
    expect(new Set([left.name, next.name, back.name]).size).toBe(3);
  }, 60_000);
});
