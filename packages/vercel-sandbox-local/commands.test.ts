import { once } from "node:events";
import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { Sandbox, StreamError } from "@vercel/sandbox";
import { describe, expect, test } from "vitest";
import {
  eventually,
  localTest,
  openService,
  peakMemoryMb,
  refusedWith,
  sh,
  spawnApi,
  temporaryDirectory,
} from "./testing/api.ts";

const sigkillExit = 137;
const sigtermExit = 143;

describe("a command that is waited for", () => {
  test("returns its exit code, stdout and stderr", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    const finished = await sandbox.runCommand("sh", ["-c", "echo out; echo err >&2; exit 3"]);
    expect(finished.exitCode).toBe(3);
    expect(await finished.stdout()).toBe("out\n");
    expect(await finished.stderr()).toBe("err\n");
    expect(finished.durationMs).toBeGreaterThanOrEqual(0);
  });

  test("gets the sandbox's variables and its own, but none of the API's", async () => {
    process.env.SECRET_OF_THE_API = "leaked";
    await using service = await openService();
    const sandbox = await service.create({ persistent: false, env: { A: "sandbox", B: "sandbox" } });
    const finished = await sandbox.runCommand({ cmd: "env", env: { B: "command" } });
    delete process.env.SECRET_OF_THE_API;
    const lines = (await finished.stdout()).split("\n");
    expect(lines).toEqual(expect.arrayContaining(["A=sandbox", "B=command", "HOME=/home/vercel-sandbox"]));
    expect(lines.join("\n")).not.toContain("leaked");
  });

  test("runs in the given directory, relative to the working directory", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    await sandbox.mkDir("sub");
    const finished = await sandbox.runCommand({ cmd: "pwd", cwd: "sub" });
    expect(await finished.stdout()).toBe("/vercel/sandbox/sub\n");
    expect(finished.cwd).toBe("/vercel/sandbox/sub");
  });

  localTest("Vercel's status is not known")("in a missing directory is a 400", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    expect((await refusedWith(sandbox.runCommand({ cmd: "pwd", cwd: "nowhere" }))).status).toBe(400);
  });

  localTest("Vercel's exit code is not known")("that cannot be found exits with 127", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    const finished = await sandbox.runCommand("no-such-program");
    expect(finished.exitCode).toBe(127);
    expect(await finished.stderr()).toContain("command not found");
  });

  localTest("Vercel's limit is not known")("with an argument that is too long exits with 126", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    const finished = await sandbox.runCommand("echo", ["x".repeat(200_000)]);
    expect(finished.exitCode).toBe(126);
    expect(await finished.stderr()).toContain("E2BIG");
  });

  test("runs with sudo", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    expect((await sandbox.runCommand({ cmd: "true", sudo: true })).exitCode).toBe(0);
  });

  test("is killed at its timeout", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    const finished = await sandbox.runCommand("sleep", ["1000"], { timeoutMs: 100 });
    expect(finished.exitCode).toBe(sigkillExit);
  });

  test("streams its output while it runs", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    const stdout = new PassThrough();
    const script = "echo first; until [ -e go ]; do sleep 0.02; done; echo second";
    const finished = sandbox.runCommand({ cmd: "sh", args: ["-c", script], stdout });
    const [first] = await once(stdout, "data");
    expect(String(first)).toBe("first\n");
    await sandbox.writeFiles([{ path: "go", content: "" }]);
    expect(await (await finished).stdout()).toBe("first\nsecond\n");
  });
});

describe("a detached command", () => {
  test("returns at once and can be found and awaited by its id", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    const script = "until [ -e go ]; do sleep 0.02; done; exit 4";
    const command = await sandbox.runCommand({ cmd: "sh", args: ["-c", script], detached: true });
    expect(command.exitCode).toBeNull();
    const found = await sandbox.getCommand(command.cmdId);
    expect(found.exitCode).toBeNull();
    const waiting = found.wait();
    await sandbox.writeFiles([{ path: "go", content: "" }]);
    expect((await waiting).exitCode).toBe(4);
    expect((await sandbox.getCommand(command.cmdId)).exitCode).toBe(4);
  });

  test("has the same logs while it runs and afterwards", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    const script = "echo one; until [ -e go ]; do sleep 0.02; done; echo two >&2";
    const command = await sandbox.runCommand({ cmd: "sh", args: ["-c", script], detached: true });
    const seen: string[] = [];
    for await (const { stream, data } of command.logs()) {
      seen.push(`${stream}:${data}`);
      if (seen.length === 1) await sandbox.writeFiles([{ path: "go", content: "" }]);
    }
    expect(seen).toEqual(["stdout:one\n", "stderr:two\n"]);
    expect(await (await sandbox.getCommand(command.cmdId)).output("both")).toBe("one\ntwo\n");
  });

  test("that does not exist is a 404", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    expect((await refusedWith(sandbox.getCommand("cmd_none"))).status).toBe(404);
  });

  test("gets signals together with its process group", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    // Wait for the exec: a forked shell that is not yet `sleep` would ignore the signal.
    const script = 'trap "exit 5" TERM; sleep 1000 & until grep sleep /proc/$!/comm; do :; done; wait';
    const command = await sandbox.runCommand({ cmd: "sh", args: ["-c", script], detached: true });
    for await (const { data } of command.logs()) if (data.includes("sleep")) break;
    await command.kill("SIGTERM");
    expect((await command.wait()).exitCode).toBe(5);
    await eventually(async () => !(await sh(sandbox, "ps -eo args")).includes("sleep 1000"));
  });

  test("that ignores SIGTERM ends with SIGKILL", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    const script = 'trap "echo ignored" TERM; echo ready; while :; do sleep 0.02; done';
    const command = await sandbox.runCommand({ cmd: "sh", args: ["-c", script], detached: true });
    for await (const { data } of command.logs()) {
      if (data.includes("ready")) await command.kill();
      if (data.includes("ignored")) break;
    }
    expect((await sandbox.getCommand(command.cmdId)).exitCode).toBeNull();
    await command.kill("SIGKILL");
    expect((await command.wait()).exitCode).toBe(sigkillExit);
  });

  test("without a trap exits with 128 plus the signal number", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    const command = await sandbox.runCommand({ cmd: "sleep", args: ["1000"], detached: true });
    await command.kill();
    expect((await command.wait()).exitCode).toBe(sigtermExit);
  });

  test("that has ended can be killed again", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    const command = await sandbox.runCommand({ cmd: "true", detached: true });
    await command.wait();
    await command.kill("SIGKILL");
    expect((await sandbox.getCommand(command.cmdId)).exitCode).toBe(0);
  });

  test("ends its streams and waits with an error when the sandbox stops", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    const command = await sandbox.runCommand({
      cmd: "sh",
      args: ["-c", "echo up; sleep 1000"],
      detached: true,
    });
    const waiting = refusedWith(command.wait());
    const logs: string[] = [];
    const reading = (async () => {
      for await (const { data } of command.logs()) {
        logs.push(data);
        await sandbox.stop();
      }
    })();
    const failed = await reading.then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(failed).toBeInstanceOf(StreamError);
    expect(logs).toEqual(["up\n"]);
    expect((await waiting).status).toBe(410);
  });
});

describe("output", () => {
  test("keeps characters whole when they are written byte by byte", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    const code = `const b = Buffer.from("a€😀".repeat(50000));
      let i = 0;
      const next = () => { if (i >= b.length) return; process.stdout.write(b.subarray(i, i += 4093), next); };
      next();`;
    const finished = await sandbox.runCommand("node", ["-e", code]);
    // `toBe` would print the whole text on a difference.
    expect((await finished.stdout()) === "a€😀".repeat(50_000)).toBe(true);
  });

  test("contains everything that was written before the exit", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    const bytes = 3_000_000;
    const finished = await sandbox.runCommand("sh", [
      "-c",
      `head -c ${bytes} /dev/zero | tr '\\0' x; echo end >&2`,
    ]);
    expect((await finished.stdout()).length).toBe(bytes);
    expect(await finished.stderr()).toBe("end\n");
  });

  test("ends with the command even if a daemon holds the pipe", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    const silent = await sandbox.runCommand("sh", ["-c", "sleep 1000 & echo done"]);
    expect(await silent.stdout()).toBe("done\n");
    expect(silent.durationMs).toBeLessThan(1_000);
    const chatty = await sandbox.runCommand("sh", [
      "-c",
      "(while :; do echo noise; sleep 0.01; done) & echo done",
    ]);
    expect(chatty.exitCode).toBe(0);
    expect(await chatty.stdout()).toContain("done");
  });

  localTest("Vercel's limit is not known")("over the limit is cut and the log says so", async () => {
    await using service = await openService({ limits: { maxLogBytes: 1_000 } });
    const sandbox = await service.create({ persistent: false });
    const finished = await sandbox.runCommand("sh", ["-c", "head -c 500000 /dev/zero | tr '\\0' x"]);
    expect(finished.exitCode).toBe(0);
    expect(await finished.stdout()).toBe("x".repeat(1_000));
    expect(await finished.stderr()).toContain("log cut at 1000 bytes");
  });

  localTest("it reads the API's memory")("of 50 MB does not grow the API's memory", async () => {
    await using directory = await temporaryDirectory();
    await using api = await spawnApi(directory.path);
    const sandbox = await Sandbox.create({ ...api.credentials, persistent: false });
    const { sessionId } = sandbox.currentSession();
    const printAndRead = async () => {
      const script = "head -c 50000000 /dev/zero | tr '\\0' x";
      const command = await sandbox.runCommand({ cmd: "sh", args: ["-c", script], detached: true });
      await command.wait();
      // Plain HTTP: the SDK would buffer all of it in this process.
      const logs = await fetch(
        `${api.url}/api/v2/sandboxes/sessions/${sessionId}/cmd/${command.cmdId}/logs`,
        {
          headers: { authorization: "Bearer token" },
        },
      );
      let read = 0;
      for await (const chunk of logs.body ?? []) read += chunk.length;
      expect(read).toBeGreaterThan(50_000_000);
      return peakMemoryMb(api.pid);
    };
    // The first run grows the heap until the garbage collector starts.
    const first = await printAndRead();
    expect((await printAndRead()) - first).toBeLessThan(25);
  });

  test("of a hundred concurrent commands is not mixed up", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    const outputs = await Promise.all(
      Array.from({ length: 100 }, (_, index) => sh(sandbox, `echo ${index}`)),
    );
    expect(outputs).toEqual(Array.from({ length: 100 }, (_, index) => String(index)));
  });
});

test("a concurrent file read and log stream are both complete", async () => {
  await using service = await openService();
  const sandbox = await service.create({ persistent: false });
  await sh(sandbox, "head -c 2000000 /dev/urandom > big; sha256sum < big > sum");
  const [file, printed, sum] = await Promise.all([
    sandbox.readFileToBuffer({ path: "big" }),
    sh(sandbox, "seq 100000"),
    sandbox.readFile({ path: "sum" }).then((stream) => text(stream as NodeJS.ReadableStream)),
  ]);
  expect(file?.length).toBe(2_000_000);
  expect(printed.split("\n").length).toBe(100_000);
  expect(sum).toMatch(/^[0-9a-f]{64}/);
});
