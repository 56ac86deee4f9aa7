import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, readdirSync, readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { text } from "node:stream/consumers";
import { Sandbox, Snapshot } from "@vercel/sandbox";
import { describe, expect } from "vitest";
import { alive } from "../../test/testing/processes.ts";
import { startSandboxApi } from "./index.ts";
import {
  eventually,
  isolationTest,
  localTest,
  openService,
  refusedWith,
  sh,
  spawnApi,
  temporaryDirectory,
} from "./testing/api.ts";

const restartTest = localTest("it restarts the API");

describe("a restart", () => {
  for (const [how, signal] of [
    ["ended", "SIGTERM"],
    ["was killed", "SIGKILL"],
  ] as const) {
    restartTest(`after the API ${how}, sandboxes are stopped and their files are kept`, async () => {
      await using directory = await temporaryDirectory();
      await using before = await spawnApi(directory.path);
      const kept = await Sandbox.create({ ...before.credentials, name: "kept", tags: { a: "1" } });
      const dropped = await Sandbox.create({ ...before.credentials, name: "dropped", persistent: false });
      await sh(kept, "echo kept > file");
      const finished = await kept.runCommand("sh", ["-c", "echo logged; exit 7"]);
      const snapped = await Sandbox.create(before.credentials);
      const { snapshotId } = await snapped.snapshot();
      const oldSession = kept.currentSession().sessionId;
      await before.end(signal);

      await using after = await spawnApi(directory.path);
      const again = await Sandbox.get({ ...after.credentials, name: "kept" });
      expect(again).toMatchObject({ status: "stopped", tags: { a: "1" } });
      expect((await Sandbox.get({ ...after.credentials, name: "dropped" })).status).toBe("stopped");
      expect((await Snapshot.get({ ...after.credentials, snapshotId })).status).toBe("created");
      const command = await again.currentSession().getCommand(finished.cmdId);
      expect(command.exitCode).toBe(7);
      expect(await command.stdout()).toBe("logged\n");
      expect(await sh(again, "cat file")).toBe("kept");
      expect(again.currentSession().sessionId).not.toBe(oldSession);
      const lost = await Sandbox.get({ ...after.credentials, name: dropped.name });
      expect((await refusedWith(lost.runCommand("true"))).status).toBe(410);
    });
  }

  restartTest("a command that was interrupted has its log and no exit code", async () => {
    await using directory = await temporaryDirectory();
    await using before = await spawnApi(directory.path);
    const sandbox = await Sandbox.create({ ...before.credentials, name: "cut" });
    const command = await sandbox.runCommand({
      cmd: "sh",
      args: ["-c", "echo begun; sleep 1000"],
      detached: true,
    });
    for await (const { data } of command.logs()) if (data.includes("begun")) break;
    await before.end("SIGKILL");

    await using after = await spawnApi(directory.path);
    const session = (await Sandbox.get({ ...after.credentials, name: "cut" })).currentSession();
    expect((await refusedWith(session.getCommand(command.cmdId))).status).toBe(410);
    const url = `${after.url}/api/v2/sandboxes/sessions/${session.sessionId}/cmd/${command.cmdId}/logs`;
    const logs = await (await fetch(url, { headers: { authorization: "Bearer token" } })).text();
    expect(
      logs
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line).stream),
    ).toEqual(["stdout", "error"]);
  });

  restartTest("an interrupted create leaves no sandbox and a free name", async () => {
    await using directory = await temporaryDirectory();
    await using before = await spawnApi(directory.path, "--control-token", "control");
    await fetch(`${before.url}/_control/latency`, {
      method: "PUT",
      headers: { authorization: "Bearer control" },
      body: JSON.stringify({ createMs: 60_000 }),
    });
    const creating = Sandbox.create({ ...before.credentials, name: "interrupted" }).catch(() => {});
    await eventually(async () => (await Sandbox.list(before.credentials)).sandboxes.length === 1);
    await before.end("SIGKILL");
    await using after = await spawnApi(directory.path);
    expect((await Sandbox.create({ ...after.credentials, name: "interrupted" })).status).toBe("running");
    await creating;
  });

  restartTest("a snapshot that a kill interrupted is completed or undone", async () => {
    await using directory = await temporaryDirectory();
    await using before = await spawnApi(directory.path);
    const [early, late] = [
      await Sandbox.create({ ...before.credentials, name: "early" }),
      await Sandbox.create({ ...before.credentials, name: "late" }),
    ];
    for (const sandbox of [early, late]) await sh(sandbox, "echo kept > file");
    const lateSession = late.currentSession().sessionId;
    const { snapshot } = await late.stop();
    await before.end("SIGKILL");
    // Killed after the record was written, and killed after the files were moved but before the sandbox was updated.
    const incomplete = "snap_incomplete";
    const record = {
      ...snapshot,
      id: incomplete,
      sandboxName: "early",
      projectId: "prj_test",
      status: "created",
    };
    await writeJson(path.join(directory.path, "snapshots", incomplete, "snapshot.json"), record);
    await changeJson(path.join(directory.path, "sessions", lateSession, "session.json"), {
      status: "stopping",
    });
    const [file = ""] = readdirSync(path.join(directory.path, "sandboxes")).filter((name) =>
      readFileSync(path.join(directory.path, "sandboxes", name), "utf8").includes('"late"'),
    );
    await changeJson(path.join(directory.path, "sandboxes", file), { currentSnapshotId: undefined });

    await using after = await spawnApi(directory.path);
    for (const name of ["early", "late"]) {
      expect(await sh(await Sandbox.get({ ...after.credentials, name }), "cat file"), name).toBe("kept");
    }
    expect((await Snapshot.get({ ...after.credentials, snapshotId: incomplete })).status).toBe("deleted");
  });

  restartTest("a partial line in a record is ignored", async () => {
    await using directory = await temporaryDirectory();
    const inData = (...names: string[]) => path.join(directory.path, ...names);
    await using before = await spawnApi(directory.path);
    const sandbox = await Sandbox.create({ ...before.credentials, name: "cut" });
    const { sessionId } = sandbox.currentSession();
    const { cmdId } = await sandbox.runCommand("sh", ["-c", "echo kept > file; exit 7"]);
    await before.end("SIGKILL");
    const records = [
      ...readdirSync(inData("sandboxes")).map((name) => inData("sandboxes", name)),
      inData("sessions", sessionId, "session.json"),
      inData("sessions", sessionId, "commands.ndjson"),
    ];
    for (const file of records) appendFileSync(file, '{"id":"ha');

    for (const round of ["first", "second"]) {
      await using after = await spawnApi(directory.path);
      const again = await Sandbox.get({ ...after.credentials, name: "cut" });
      expect(again.status, round).toBe("stopped");
      const first = (await again.listSessions({ sortOrder: "asc" })).sessions[0];
      expect(first?.id, round).toBe(sessionId);
      const url = `${after.url}/api/v2/sandboxes/sessions/${sessionId}/cmd/${cmdId}`;
      const command = await (await fetch(url, { headers: { authorization: "Bearer token" } })).json();
      expect(command, round).toMatchObject({ command: { id: cmdId, exitCode: 7 } });
      expect(await sh(again, "cat file"), round).toBe("kept");
      await after.end("SIGKILL");
    }
  });

  restartTest("two APIs cannot share a data directory", async () => {
    await using service = await openService();
    await expect(startSandboxApi({ dataDir: service.dataDir })).rejects.toThrow("in use");
  });

  restartTest("a deleted sandbox leaves nothing in the data directory", async () => {
    await using service = await openService();
    const sandbox = await service.create();
    await sh(sandbox, "mkdir -p ro/dir; touch ro/dir/file; chmod -R a-w ro");
    await sandbox.stop();
    await sandbox.delete({ deleteOrphanSnapshots: true });
    const left = () =>
      ["sandboxes", "sessions", "trash"].flatMap((name) => readdirSync(path.join(service.dataDir, name)));
    await eventually(() => left().length === 0);
  });
});

describe("the shutdown of the API", () => {
  isolationTest("after a kill -9 no sandboxed process is left", async () => {
    await using directory = await temporaryDirectory();
    await using api = await spawnApi(directory.path);
    const sandbox = await Sandbox.create({ ...api.credentials, persistent: false });
    const mark = `8${Date.now()}`;
    await sh(sandbox, `setsid sleep ${mark} </dev/null >/dev/null 2>&1 &`);
    await sandbox.runCommand({ cmd: "sleep", args: [mark], detached: true });
    await eventually(() => alive(`sleep ${mark}`).length === 2);
    await api.end("SIGKILL");
    await eventually(() => alive(`sleep ${mark}`).length === 0);
    await eventually(() => alive(directory.path).length === 0);
  });

  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    restartTest(`${signal} stops all sandboxes, then the API exits with 0`, async () => {
      await using directory = await temporaryDirectory();
      await using api = await spawnApi(directory.path);
      const sandbox = await Sandbox.create({ ...api.credentials, persistent: false });
      const mark = `7${Date.now()}`;
      await sandbox.runCommand({ cmd: "sleep", args: [mark], detached: true });
      expect(await api.end(signal)).toBe(0);
      expect(alive(`sleep ${mark}`)).toEqual([]);
    });
  }
});

describe("the command line", () => {
  restartTest("invalid arguments exit with 2 and one line", async () => {
    const bad = [
      ["--port", "many"],
      ["--max-sandboxes", "0"],
      ["--isolation", "some"],
      ["--bogus"],
      ["argument"],
    ];
    for (const args of bad) {
      const { code, stderr } = await cli(args);
      expect(code, args.join(" ")).toBe(2);
      expect(stderr.trim().split("\n"), args.join(" ")).toHaveLength(1);
    }
  });

  restartTest("--help lists the options", async () => {
    const { code, stdout } = await cli(["--help"]);
    expect(code).toBe(0);
    expect(stdout).toContain("--data-dir");
  });

  restartTest("--max-sandboxes sets the limit", async () => {
    await using directory = await temporaryDirectory();
    await using api = await spawnApi(directory.path, "--max-sandboxes", "1");
    await Sandbox.create({ ...api.credentials, persistent: false });
    const response = await fetch(`${api.url}/api/v2/sandboxes`, {
      method: "POST",
      headers: { authorization: "Bearer token" },
      body: "{}",
    });
    expect(response.status).toBe(429);
  });
});

async function writeJson(file: string, value: object): Promise<void> {
  await mkdir(path.dirname(file), { recursive: true });
  await writeFile(file, JSON.stringify(value));
}

async function changeJson(file: string, change: object): Promise<void> {
  const last = readFileSync(file, "utf8").trim().split("\n").at(-1) ?? "";
  await writeJson(file, { ...JSON.parse(last), ...change });
}

async function cli(args: string[]) {
  const bin = path.join(import.meta.dirname, "bin/vercel-sandbox-local.mjs");
  const child = spawn(process.execPath, [bin, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  const [[code], stdout, stderr] = await Promise.all([
    once(child, "exit"),
    text(child.stdout),
    text(child.stderr),
  ]);
  return { code, stdout, stderr };
}
