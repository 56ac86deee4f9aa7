import { beforeEach, describe, expect, it } from "vitest";
import { createDriver, type Driver } from "../../../test/testing/driver.ts";
import { ProviderError } from "../errors.ts";
import type { HeaderRule, NetworkPolicy } from "../ports.ts";

const repo = {
  url: "https://git.example/team/app.git",
  branch: "work",
  push: true,
  token: "canary-git-token",
};
const push = { commit: "c".repeat(40), branch: "work", exitCode: 0, text: "done" };
const basic = `Basic ${Buffer.from(`x-access-token:${repo.token}`).toString("base64")}`;
const resting = { allow: ["*"], inject: [] };

let api: Driver["api"];
let { running, say, end, stop, get, post } = createDriver();
let policies: NetworkPolicy[];
let brokenFor: ((policy: NetworkPolicy) => boolean) | undefined;

beforeEach(() => {
  ({ api, running, say, end, stop, get, post } = createDriver());
  policies = [];
  brokenFor = undefined;
  api.deps.provider.guardNetwork = async (_sandbox, policy) => {
    if (brokenFor?.(policy)) throw new ProviderError("transient", "no answer");
    policies.push(policy);
    return "guarded";
  };
});

const isResting = ({ inject }: NetworkPolicy) => inject.length === 0;
const lastPolicy = () => policies.at(-1);
const lastTurn = () => JSON.parse(api.world.processes.at(-1)?.env.CONCIERGE_TURN ?? "{}");

/** The header that a request would get, by the rules of the last policy. */
function injected(method: string, path: string, headers: Record<string, string> = {}): string | undefined {
  const { pathname, searchParams, hostname } = new URL(path);
  const applies = ({ host, match }: HeaderRule) =>
    host === hostname &&
    ("exact" in match.path ? pathname === match.path.exact : pathname.startsWith(match.path.startsWith)) &&
    (match.method ?? method) === method &&
    (!match.query || searchParams.get(match.query.name) === match.query.value) &&
    (!match.header || headers[match.header.name] === match.header.value);
  return lastPolicy()?.inject.find(applies)?.set.value;
}

const fetchRefs = () => injected("GET", `${repo.url}/info/refs?service=git-upload-pack`);
const fetchPack = () => injected("POST", `${repo.url}/git-upload-pack`);
const pushRefs = () => injected("GET", `${repo.url}/info/refs?service=git-receive-pack`);
const pushPack = () => injected("POST", `${repo.url}/git-receive-pack`);

describe("the model's key", () => {
  it("is injected for the model's host and path, and only with this turn's placeholder", async () => {
    await running({ agent: "claude" });
    const placeholder = lastTurn().agentEnv.ANTHROPIC_API_KEY;
    expect(placeholder).toMatch(/^concierge-/);
    const model = "https://api.anthropic.com/v1/messages";
    expect(injected("POST", model, { "x-api-key": placeholder })).toBe("canary-agent-key");
    expect(injected("POST", model)).toBeUndefined();
    expect(injected("POST", model, { "x-api-key": "a guess" })).toBeUndefined();
    expect(injected("GET", "https://api.anthropic.com/other", { "x-api-key": placeholder })).toBeUndefined();
    expect(
      injected("POST", "https://evil.example/v1/messages", { "x-api-key": placeholder }),
    ).toBeUndefined();
  });

  it("has another placeholder in every turn", async () => {
    const { id, token } = await running({ agent: "claude" });
    const first = lastTurn().agentEnv.ANTHROPIC_API_KEY;
    await end(token);
    await api.work();
    await post(`/v1/tasks/${id}/continue`, { prompt: "again" });
    await api.work();
    expect(lastTurn().turn).toBe(2);
    expect(lastTurn().agentEnv.ANTHROPIC_API_KEY).not.toBe(first);
  });
});

describe("the git credential", () => {
  it("allows fetches while the turn runs, pushes only while finalizing, and nothing afterwards", async () => {
    const { id, token } = await running({ repo });
    expect([fetchRefs(), fetchPack(), pushRefs(), pushPack()]).toEqual([basic, basic, undefined, undefined]);
    expect(injected("GET", "https://git.example/team/other.git/info/refs?service=git-upload-pack")).toBe(
      undefined,
    );

    expect((await say(token, "finalize", push)).json).toEqual({ action: "go", credential: null });
    expect([fetchRefs(), pushRefs(), pushPack()]).toEqual([basic, basic, basic]);

    api.refs.set(`${repo.url} work`, push.commit);
    await end(token, { pushed: true });
    expect((await get(id)).status).toBe("succeeded");
    expect(lastPolicy()).toEqual(resting);
  });

  it("never reaches the runner: not in its configuration, nor in an answer", async () => {
    const { token } = await running({ repo });
    const clone = await say(token, "clone", { nonce: "n".repeat(20) });
    const grant = await say(token, "finalize", push);
    for (const text of [JSON.stringify(lastTurn()), clone.text, grant.text]) {
      expect(text).not.toContain(repo.token);
      expect(text).not.toContain(basic);
    }
  });

  it("opens for a push only after the write that grants it", async () => {
    const { id, token } = await running({ repo });
    await stop(id);
    expect((await say(token, "finalize", push)).json).toEqual({ action: "stop" });
    expect(
      policies.filter(({ inject }) =>
        inject.some(({ match }) => "exact" in match.path && match.path.exact.endsWith("git-receive-pack")),
      ),
    ).toEqual([]);
  });

  it("is opened again for a runner whose answer was lost", async () => {
    const { token } = await running({ repo });
    brokenFor = ({ inject }) => inject.length > 0;
    expect((await say(token, "finalize", push)).status).toBe(503);
    brokenFor = undefined;
    expect((await say(token, "finalize", push)).json.action).toBe("go");
    expect(pushPack()).toBe(basic);
  });

  it("keeps the turn finalizing until it is taken away", async () => {
    const { id, token } = await running({ repo });
    await say(token, "finalize", push);
    api.refs.set(`${repo.url} work`, push.commit);
    brokenFor = isResting;
    await end(token, { pushed: true });
    expect((await get(id)).status).toBe("finalizing");
    brokenFor = undefined;
    api.advance(60_000);
    await api.fire("finalize");
    expect((await get(id)).status).toBe("succeeded");
    expect(lastPolicy()).toEqual(resting);
  });
});

describe("a turn's credentials are taken away", () => {
  it("when it ends by itself", async () => {
    const { token } = await running({ agent: "claude" });
    await end(token);
    expect(lastPolicy()).toEqual(resting);
  });

  it("when it is stopped", async () => {
    const { id } = await running({ agent: "claude" });
    await stop(id);
    expect(lastPolicy()).toEqual(resting);
  });

  it("when it reaches its deadline", async () => {
    await running({ agent: "claude", limits: { maxDurationMs: 5000 } });
    api.advance(5000);
    await api.fire("deadline");
    expect(lastPolicy()).toEqual(resting);
  });

  it("later, by the follow-up, if the provider did not answer at the end", async () => {
    const { id, token } = await running({ agent: "claude" });
    brokenFor = isResting;
    await end(token);
    expect((await get(id)).status).toBe("succeeded");
    expect(lastPolicy()?.inject).not.toEqual([]);
    await api.work().catch(() => {});
    brokenFor = undefined;
    api.advance(60_000);
    await api.request("POST", "/v1/reap");
    await api.work();
    expect(lastPolicy()).toEqual(resting);
  });

  it("but not from the next turn, which has its own", async () => {
    const { token } = await running({ agent: "claude", sessionKey: "shared" });
    brokenFor = isResting;
    await end(token);
    brokenFor = undefined;
    await running({ agent: "claude", sessionKey: "shared" });
    await api.work();
    expect(lastPolicy()?.inject).not.toEqual([]);
  });
});

describe("a sandbox without a turn", () => {
  it("gets the operator's hosts before anything runs in it", async () => {
    const made: unknown[] = [];
    const { create } = api.deps.provider;
    api.deps.provider.create = (options) => {
      made.push(options.policy);
      return create(options);
    };
    await api.request("PUT", "/v1/sessions/open");
    await api.work();
    Object.assign(api.deps.config, { sandboxHosts: ["registry.npmjs.org"] });
    await api.request("PUT", "/v1/sessions/limited");
    await api.work();
    expect(made).toEqual([undefined, { allow: ["registry.npmjs.org"], inject: [] }]);
  });
});
