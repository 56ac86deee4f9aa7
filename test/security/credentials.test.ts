import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type GitServer, startGitServer } from "../testing/git-server.ts";
import { type Concierge, startConcierge } from "../testing/stack.ts";

// The agent is the attacker: it looks for credentials in its sandbox and uses the network as it can.

const mark = "canary-9c1e";
const secrets = { model: `${mark}-model-key`, git: `${mark}-git-token` };
const path = "/vercel/sandbox/bin:/usr/local/bin:/usr/bin:/bin";

/** Calls its model once, then leaves a process that goes on with all that the agent knew. */
const fakeClaude = `#!/bin/sh
cat > /dev/null
ask() { curl -s -m 5 "$ANTHROPIC_BASE_URL$1" -H "x-api-key: $2" -d "$3"; }
ask /v1/messages "$ANTHROPIC_API_KEY" agent
ask /v1/messages "a guess" guess
ask /elsewhere "$ANTHROPIC_API_KEY" elsewhere
(while :; do ask /v1/messages "$ANTHROPIC_API_KEY" daemon; sleep 0.2; done) > /dev/null 2>&1 &
echo '{"type":"system","subtype":"init","session_id":"conversation-1"}'
echo '{"type":"result","is_error":false,"result":"done","total_cost_usd":0.01,"usage":{}}'
`;
const setup = `mkdir -p bin && printf '%s' '${fakeClaude.replaceAll("'", `'"'"'`)}' > bin/claude && chmod +x bin/claude`;

let concierge: Concierge;
let git: GitServer;
/** What the model was asked: who asked, and with which key. */
const asked: { who: string; key: string }[] = [];
let onAsked = () => {};
const model = createServer((request, response) => {
  let who = "";
  request.on("data", (bytes) => {
    who += bytes;
  });
  request.on("end", () => {
    asked.push({ who, key: String(request.headers["x-api-key"]) });
    onAsked();
    response.end("{}");
  });
});

beforeAll(async () => {
  await new Promise<void>((listening) => model.listen(0, "127.0.0.1", listening));
  const url = `http://127.0.0.1:${(model.address() as AddressInfo).port}`;
  const env = {
    ANTHROPIC_API_KEY: secrets.model,
    ANTHROPIC_BASE_URL: url,
    SANDBOX_SETUP: setup,
    // Reachable after the turn, too.
    CONCIERGE_DEV_PRIVATE_HOSTS: new URL(url).host,
  };
  [concierge, git] = await Promise.all([
    startConcierge({ env, reapEveryMs: 60_000 }),
    startGitServer({ token: secrets.git }),
  ]);
}, 60_000);
afterAll(async () => {
  model.close();
  await concierge[Symbol.asyncDispose]();
  await git.close();
});

const repoOf = (name: string) => {
  const { url } = git.createRepo(name, { files: { "README.md": "hello\n" } });
  return { url, branch: "work", username: git.username, token: secrets.git };
};

/** The next request to the model after now. */
const nextAsk = () => new Promise<void>((resolve) => (onAsked = resolve));

describe("from inside the sandbox", () => {
  it("no credential and no turn token is found, in any file, environment or command line", async () => {
    const { client } = concierge;
    const search = [
      // The pattern is put together here, so that it does not find itself.
      `pattern="canary-""9c1e|task_[0-9a-z]{26}""[.]1[.][0-9]+"`,
      `for file in /proc/[0-9]*/environ /proc/[0-9]*/cmdline; do cat $file 2>/dev/null | tr '\\0' '\\n' | grep -aE "$pattern" && echo "in $file"; done`,
      `grep -raEl "$pattern" /vercel/sandbox /home /tmp /run/sandbox-network 2>/dev/null && echo "in files"`,
      "git fetch origin && echo fetched",
      "true",
    ].join("\n");
    const { id } = await client.start(search, {
      sessionKey: "search",
      repo: { ...repoOf("search"), push: false },
    });
    const task = await client.ended(id);
    expect(task).toMatchObject({ status: "succeeded" });
    // A fetch works, so the credential was in force during the search.
    expect(String(await client.output(id))).toBe("fetched\n");
  }, 60_000);

  it("the agent cannot push, and nothing can fetch after the turn", async () => {
    const { client } = concierge;
    const repo = repoOf("push");
    const script = [
      "echo changed > changed.txt",
      "git -c user.name=x -c user.email=x@x commit -qam evil --allow-empty",
      "GIT_TERMINAL_PROMPT=0 git push origin HEAD:evil 2>&1 || echo 'push refused'",
    ].join("\n");
    const { id } = await client.start(script, { sessionKey: "push", repo });
    const task = await client.ended(id);
    expect(task).toMatchObject({ status: "succeeded", result: { pushed: true } });
    expect(String(await client.output(id))).toContain("push refused");
    expect(git.branch("push", "work")).toMatch(/^[0-9a-f]{40}$/);
    expect(git.branch("push", "evil")).toBeUndefined();

    const fetched = (await client.json("POST", "/v1/sessions/push/exec", {
      command: "sh",
      args: ["-c", `GIT_TERMINAL_PROMPT=0 git ls-remote ${repo.url}`],
    })) as { exitCode: number; stdout: string };
    expect(fetched.exitCode).not.toBe(0);
    expect(fetched.stdout).toBe("");
  }, 60_000);

  it("the model's key goes to its model, for the agent's own requests, until the turn ends", async () => {
    const { client } = concierge;
    const { id } = await client.start("do it", {
      agent: "claude",
      sessionKey: "model",
      env: { PATH: path },
    });
    expect(await client.ended(id)).toMatchObject({ status: "succeeded" });
    const keyOf = (who: string) => asked.find((one) => one.who === who)?.key;
    expect(keyOf("agent")).toBe(secrets.model);
    expect(keyOf("guess")).toBe("a guess");
    expect(keyOf("elsewhere")).toMatch(/^concierge-/);

    // The process that the agent left still knows the placeholder. Its next request carries no key.
    asked.length = 0;
    await nextAsk();
    expect(asked[0]).toEqual({ who: "daemon", key: expect.stringMatching(/^concierge-/) });
  }, 60_000);
});
