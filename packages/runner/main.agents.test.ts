import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type OutputPost, runFiles, runnerExit } from "@concierge/protocol";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { accept, FakeConcierge } from "./testing/concierge.ts";
import { everyCommandLine } from "./testing/git-world.ts";
import { type Bundle, bundleRunner, type RunOptions, Turn, until } from "./testing/runner.ts";

let bundle: Bundle;

beforeAll(async () => {
  bundle = await bundleRunner();
});

afterAll(() => bundle[Symbol.dispose]());

const assistant = (text: string) => ({
  type: "assistant",
  session_id: "conv-1",
  message: {
    id: "msg_1",
    model: "claude-opus-5-5",
    content: [{ type: "text", text }],
    usage: { input_tokens: 10 },
  },
});
const result = (text: string, isError = false) => ({
  type: "result",
  session_id: "conv-1",
  is_error: isError,
  result: text,
  total_cost_usd: 0.5,
  usage: { input_tokens: 10, output_tokens: 2 },
});
const stream = (...events: unknown[]) => events.map((event) => `${JSON.stringify(event)}\n`).join("");

/** A turn of claude in its own home, with scripts in place of claude and npm. */
function turnOf(concierge: FakeConcierge, programs: Record<string, string>, options: RunOptions = {}): Turn {
  const turn = new Turn(bundle, concierge, "the prompt\n", { agent: "claude", ...options });
  const bin = join(turn.root, "bin");
  mkdirSync(bin);
  for (const [name, script] of Object.entries(programs)) {
    writeFileSync(join(bin, name), `#!/bin/bash\n${script}`);
    chmodSync(join(bin, name), 0o755);
  }
  turn.variables.PATH = `${bin}:/usr/bin:/bin`;
  turn.variables.HOME = turn.root;
  return turn;
}

/** A turn whose claude prints this text. */
function playing(
  concierge: FakeConcierge,
  text: string,
  options: RunOptions = {},
  script = "cat stream",
): Turn {
  const turn = turnOf(concierge, { claude: script }, options);
  writeFileSync(join(turn.workDir, "stream"), text);
  return turn;
}

describe("an agent with a stream", () => {
  test("gets its prompt on standard input, its conversation, and its own environment", async () => {
    await using concierge = await FakeConcierge.start();
    const script = 'cat > prompt; printf "%s\\n" "$@" > args; echo "$ANTHROPIC_API_KEY $KEY" > env';
    const agentEnv = { ANTHROPIC_API_KEY: "agents-own-key", KEY: "mine" };
    const env = { KEY: "yours", ANTHROPIC_API_KEY: "yours" };
    await using turn = turnOf(concierge, { claude: script }, { agentEnv, env, conversationId: "conv-1" });
    expect(await turn.launch().exited).toBe(runnerExit.done);
    expect(turn.read("prompt")).toBe("the prompt\n");
    expect(turn.read("args")).toMatch(/--resume\nconv-1\n$/);
    expect(turn.read("args")).not.toContain("the prompt");
    expect(turn.read("env")).toBe("agents-own-key mine\n");
  });

  test("has its output unchanged and followed by its events, with usage and conversation in each post", async () => {
    await using concierge = await FakeConcierge.start();
    const text = `garbage {\n${stream(assistant("hello"), result("done"))}the end`;
    await using turn = playing(concierge, text);
    expect(await turn.launch().exited).toBe(runnerExit.done);
    expect(concierge.text("stdout")).toBe(text);
    const { chunks, ...rest } = JSON.parse(concierge.batches[0] ?? "") as OutputPost;
    expect(chunks).toMatchObject([
      { stream: "stdout" },
      { agent: { kind: "text", text: "hello" } },
      { agent: { kind: "result", ok: true, text: "done" } },
    ]);
    const usage = { inputTokens: 10, outputTokens: 2, costUsd: 0.5 };
    expect(rest).toEqual({ seq: 1, usage, conversationId: "conv-1" });
    expect(concierge.end).toMatchObject({
      reason: "exited",
      exitCode: 0,
      text: "done",
      usage,
      conversationId: "conv-1",
    });
    expect(concierge.faults).toEqual([]);
  });

  test("keeps the order of output and events over several batches", async () => {
    await using concierge = await FakeConcierge.start();
    const lines = Array.from({ length: 3 }, (_, n) => stream(assistant(`part ${n}`)));
    const script =
      'while read -r line; do echo "$line"; n=$((n + 1)); until [ -e "go$n" ]; do sleep 0.02; done; done < stream';
    await using turn = playing(concierge, lines.join(""), {}, script);
    const { exited } = turn.launch();
    for (const [n] of lines.entries()) {
      await until(`part ${n} is there`, () => concierge.events().length === n + 1);
      turn.touch(`go${n + 1}`);
    }
    expect(await exited).toBe(runnerExit.done);
    const order = concierge.batches
      .flatMap((body) => (JSON.parse(body) as OutputPost).chunks)
      .map((chunk) => ("agent" in chunk ? chunk.agent : Buffer.from(chunk.data, "base64").toString()));
    expect(order).toEqual(lines.flatMap((line, n) => [line, { kind: "text", text: `part ${n}` }]));
  });

  test("is masked in events, text and output, except for its model's address", async () => {
    await using concierge = await FakeConcierge.start();
    const agentEnv = { ANTHROPIC_API_KEY: "agents-own-key", ANTHROPIC_BASE_URL: "http://127.0.0.1:9/model" };
    const words = "agents-own-key agents-\u001b[1mown-key task-secret http://127.0.0.1:9/model";
    const events = stream(assistant(words), result(words));
    await using turn = playing(concierge, events, { agentEnv, env: { S: "task-secret" } });
    await turn.launch().exited;
    const masked = "*** *** *** http://127.0.0.1:9/model";
    expect(concierge.events()).toEqual([
      { kind: "text", text: masked },
      { kind: "result", ok: true, text: masked },
    ]);
    expect(concierge.end?.text).toBe(masked);
    expect(concierge.posts.map(({ body }) => body).join()).not.toContain("agents-own-key");
  });

  test("is cut and stripped of ANSI sequences in its events, but not in its output", async () => {
    await using concierge = await FakeConcierge.start();
    const long = `\u001b[31m${"é".repeat(20_000)}\u001b[0m`;
    const tool = {
      ...assistant(""),
      message: { id: "m", content: [{ type: "tool_use", id: "t", name: "Bash", input: long }] },
    };
    const text = stream(assistant(long), tool, result(long));
    await using turn = playing(concierge, text);
    await turn.launch().exited;
    expect(concierge.text("stdout")).toBe(text);
    const sizes = concierge.events().map((event) => {
      const of = "input" in event ? event.input : event.text;
      expect(of).toMatch(/^é+…$/);
      return Buffer.byteLength(of);
    });
    expect(sizes).toEqual(
      [8191, 2047, 8191].map((size) => expect.toSatisfy((n: number) => n <= size + 1 && n > size - 3)),
    );
    expect(concierge.end?.text).toMatch(/^é{3999}…$/);
  });

  test("that reports a failure has failed, even if it exits with 0", async () => {
    await using concierge = await FakeConcierge.start();
    await using turn = playing(concierge, stream(result("it broke", true)));
    await turn.launch().exited;
    expect(concierge.end).toMatchObject({ reason: "exited", exitCode: 1, text: "it broke" });
  });

  test("that waits for its model is not silent, and its beats report activity and usage", async () => {
    await using concierge = await FakeConcierge.start();
    const script = "cat stream; until [ -e go ]; do sleep 0.02; done";
    const limits = { inactivityMs: 400, timings: { beatMs: 50 } };
    await using turn = playing(concierge, stream(assistant("thinking")), limits, script);
    const { exited } = turn.launch();
    await until("it was silent beyond its limit", () => concierge.of("beat").length > 12);
    turn.touch("go");
    await exited;
    expect(concierge.end?.reason).toBe("exited");
    expect(JSON.parse(concierge.of("beat").at(-1)?.body ?? "")).toMatchObject({
      activity: "model",
      usage: { inputTokens: 10 },
      conversationId: "conv-1",
    });
  });

  test("whose model call hangs is ended at the activity cap", async () => {
    await using concierge = await FakeConcierge.start();
    const limits = { inactivityMs: 200, activityCapMs: 1_500, timings: { beatMs: 50, killGraceMs: 100 } };
    await using turn = playing(
      concierge,
      stream(assistant("thinking")),
      limits,
      "cat stream; exec sleep 300",
    );
    const startedMs = performance.now();
    expect(await turn.launch().exited).toBe(runnerExit.done);
    expect(performance.now() - startedMs).toBeGreaterThan(1_500);
    expect(JSON.parse(concierge.of("beat").at(-1)?.body ?? "")).toMatchObject({ activity: "model" });
    expect(concierge.end).toMatchObject({ reason: "inactivity", exitCode: null });
    expect(turn.processes()).toEqual([]);
  });

  test("that exceeds its output cap has no more events except its answer", async () => {
    await using concierge = await FakeConcierge.start();
    const text = `${stream(...Array(2000).fill(assistant("again and again")))}${stream(result("the answer"))}`;
    await using turn = playing(concierge, text, { maxOutputBytes: 10_000 });
    await turn.launch().exited;
    expect(concierge.events().length).toBeLessThan(1000);
    expect(concierge.events().at(-1)).toEqual({ kind: "result", ok: true, text: "the answer" });
    expect(concierge.end?.text).toBe("the answer");
  });
});

/** Like npm, puts the program into the `bin` of the prefix. */
const fakeNpm = `
for arg; do case "$arg" in --prefix=*) prefix="\${arg#--prefix=}";; esac; done
echo "installing $* key:$ANTHROPIC_API_KEY registry:$npm_config_registry"; echo x >> ~/installs
mkdir -p "$prefix/bin"
`;
const installsClaude = `${fakeNpm}
printf '#!/bin/bash\\necho "I am $0"\\n' > "$prefix/bin/claude"; chmod +x "$prefix/bin/claude"`;

describe("an agent that is not installed", () => {
  const installs = (turn: Turn) => readFileSync(join(turn.root, "installs"), "utf8").length / 2;

  test("is installed once without its key, with the installer's output on stderr", async () => {
    await using concierge = await FakeConcierge.start();
    const options = {
      agentEnv: { ANTHROPIC_API_KEY: "agents-own-key" },
      env: { npm_config_registry: "http://r" },
    };
    await using turn = turnOf(concierge, { npm: installsClaude }, options);
    expect(await turn.launch().exited).toBe(runnerExit.done);
    expect(concierge.end).toMatchObject({ reason: "exited", exitCode: 0 });
    expect(concierge.text("stdout")).toBe(`I am ${turn.root}/.concierge/agents/claude-2.1.325/bin/claude\n`);
    expect(concierge.text("stderr")).toContain("@anthropic-ai/claude-code@2.1.325 key: registry:***");

    expect(await turn.launch().exited).toBe(runnerExit.done);
    expect(installs(turn)).toBe(1);
  });

  test("ends the turn with the installer's error and is not retried", async () => {
    await using concierge = await FakeConcierge.start();
    const npm = `${fakeNpm} seq 1 100; echo "npm error 404 $S" >&2; exit 7`;
    await using turn = turnOf(concierge, { npm }, { env: { S: "task-secret" } });
    await turn.launch().exited;
    expect(concierge.end).toMatchObject({ reason: "install_failed", exitCode: null, signal: null });
    expect(concierge.end?.detail).toMatch(/^npm exited with 7: 9\d\n[\s\S]*\nnpm error 404 \*\*\*$/);
    expect(installs(turn)).toBe(1);
  });

  test.each([
    ["without npm", {}, "npm cannot be started: ENOENT"],
    ["by an npm that installs nothing", { npm: fakeNpm }, "the installation has no claude"],
  ])("cannot be installed %s", async (_, programs, detail) => {
    await using concierge = await FakeConcierge.start();
    await using turn = turnOf(concierge, programs);
    // Hides the machine's own npm.
    turn.variables.PATH = `${turn.root}/bin:${turn.toolsWithoutNpm()}`;
    await turn.launch().exited;
    expect(concierge.end).toMatchObject({ reason: "install_failed", detail });
  });

  test("reports a tool's activity while it is installed, and the deadline leaves no process and no partial installation", async () => {
    await using concierge = await FakeConcierge.start();
    const npm = `${installsClaude}; trap '' TERM; while :; do sleep 0.1; done`;
    const limits = { maxDurationMs: 2_500, inactivityMs: 300, timings: { beatMs: 50, killGraceMs: 100 } };
    await using turn = turnOf(concierge, { npm }, limits);
    await turn.launch().exited;
    expect(concierge.of("beat").map(({ body }) => JSON.parse(body).activity)).toContain("tool");
    expect(concierge.end?.reason).toBe("deadline");
    expect(turn.processes()).toEqual([]);

    concierge.end = undefined;
    writeFileSync(join(turn.root, "bin/npm"), `#!/bin/bash\n${installsClaude}`);
    await turn.launch().exited;
    expect([concierge.end, installs(turn)]).toMatchObject([{ reason: "exited" }, 2]);
  });

  test("is not installed after a stop, and its installer is dead", async () => {
    await using concierge = await FakeConcierge.start();
    const mark = `3${process.pid}`;
    const npm = `${installsClaude}; env -i sleep ${mark}`;
    await using turn = turnOf(concierge, { npm }, { timings: { killGraceMs: 100 } });
    concierge.behave = (post) => (post.kind === "output" ? { action: "stop" } : accept(post));
    expect(await turn.launch().exited).toBe(runnerExit.stopped);
    expect([turn.processes(), everyCommandLine().includes(mark)]).toEqual([[], false]);
    expect(concierge.end).toBeUndefined();
  });

  test("and not on npm is reported as missing, with instructions", async () => {
    await using concierge = await FakeConcierge.start();
    await using turn = turnOf(concierge, { npm: installsClaude }, { agent: "cursor" });
    await turn.launch().exited;
    expect(concierge.end).toMatchObject({ reason: "agent_missing", exitCode: null });
    expect(concierge.end?.detail).toMatch(/^cursor-agent is not in this sandbox: .*SANDBOX_SETUP/);
  });
});

test("codex's configuration does not contain the key", async () => {
  await using concierge = await FakeConcierge.start();
  const agentEnv = { OPENAI_API_KEY: "agents-own-key", OPENAI_BASE_URL: "http://127.0.0.1:9/v1" };
  const script = 'cat "$CODEX_HOME/config.toml"; cat; echo "$@"';
  await using turn = turnOf(concierge, { codex: script }, { agent: "codex", agentEnv });
  await turn.launch().exited;
  expect(concierge.text("stdout")).toMatch(
    /base_url = "http:\/\/127\.0\.0\.1:9\/v1"[\s\S]*the prompt\nexec --json .* -\n$/,
  );
  expect(readFileSync(join(turn.root, ".concierge/codex/config.toml"), "utf8")).not.toContain(
    "agents-own-key",
  );
  expect(readFileSync(join(turn.runDir, runFiles.state), "utf8")).not.toContain("agents-own-key");
});
