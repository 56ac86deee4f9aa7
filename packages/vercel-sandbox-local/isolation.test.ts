import { randomUUID } from "node:crypto";
import { readdirSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { Sandbox } from "@vercel/sandbox";
import { describe, expect } from "vitest";
import { alive } from "../../test/testing/processes.ts";
import { eventually, isolationTest, localTest, openService, sh, temporaryDirectory } from "./testing/api.ts";

describe("processes", () => {
  isolationTest("a daemon outlives its command and dies with the sandbox", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    const mark = `9${Date.now()}`;
    await sh(sandbox, `setsid sleep ${mark} </dev/null >/dev/null 2>&1 &`);
    expect(await sh(sandbox, "ps -eo args")).toContain(`sleep ${mark}`);
    await sandbox.stop();
    expect(alive(`sleep ${mark}`)).toEqual([]);
  });

  isolationTest("a sandbox sees only its own processes", async () => {
    await using service = await openService();
    const [one, two] = [
      await service.create({ persistent: false }),
      await service.create({ persistent: false }),
    ];
    await one.runCommand({ cmd: "sleep", args: ["4321"], detached: true });
    expect(await sh(one, "ps -eo args")).toContain("sleep 4321");
    expect(await sh(two, "ps -eo args")).not.toContain("sleep 4321");
    expect(await sh(two, `kill -0 ${process.pid} 2>&1 || echo none`)).toContain("none");
  });

  isolationTest("orphans are reaped", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    await sh(sandbox, "for i in 1 2 3 4 5; do setsid sh -c 'sleep 0.01 &' & done; wait");
    await eventually(async () => !(await sh(sandbox, "ps -eo stat,comm")).includes("Z"));
  });

  isolationTest("`pkill node` and SIGTERM to all processes in a sandbox do not end it", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    await sandbox.runCommand("pkill", ["-KILL", "-f", "node"]);
    await sandbox.runCommand("sh", ["-c", "trap '' TERM; kill -TERM -1"]);
    expect(await sh(sandbox, "echo up")).toBe("up");
  });

  localTest("only a local sandbox's first process can be killed")(
    "killing all processes aborts the session, and a persistent sandbox resumes with its files",
    async ({ skip }) => {
      await using service = await openService();
      if (service.isolation === "none") skip("there is no namespace to end");
      const sandbox = await service.create();
      await sh(sandbox, "echo kept > note");
      // `Sandbox` would resume after the failure and be killed again; `Session` does not resume.
      const killing = sandbox.currentSession().runCommand("sh", ["-c", "kill -9 -1"]);
      await killing.catch(() => {});
      const { name } = sandbox;
      await eventually(
        async () => (await Sandbox.get({ ...service.credentials, name })).status === "aborted",
      );
      expect(await sh(sandbox, "cat note")).toBe("kept");
    },
  );

  isolationTest("concurrent sandboxes see only their own files", async () => {
    await using service = await openService();
    const count = 20;
    const sandboxes = await Promise.all(
      Array.from({ length: count }, () => service.create({ persistent: false })),
    );
    const answers = await Promise.all(
      sandboxes.map(async (sandbox, index) => {
        await sandbox.writeFiles([{ path: "number", content: String(index) }]);
        return sh(sandbox, "cat number");
      }),
    );
    expect(answers).toEqual(sandboxes.map((_, index) => String(index)));
  });
});

describe("files", () => {
  isolationTest("each sandbox has its own /tmp", async () => {
    await using service = await openService();
    const [one, two] = [
      await service.create({ persistent: false }),
      await service.create({ persistent: false }),
    ];
    const file = `/tmp/${randomUUID()}`;
    await sh(one, `echo mine > ${file}`);
    expect(await sh(one, `cat ${file}`)).toBe("mine");
    expect(await sh(two, `cat ${file} 2>&1 || true`)).toContain("No such file");
    expect(alive(file)).toEqual([]);
  });

  isolationTest("the system is read-only", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    for (const target of ["/usr/bin/evil", "/etc/passwd", "/usr/lib/evil"]) {
      const finished = await sandbox.runCommand("sh", ["-c", `echo evil >> ${target}`]);
      expect(finished.exitCode, target).not.toBe(0);
    }
  });

  isolationTest("kernel settings are read-only", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    const setting = "/proc/sys/kernel/core_pattern";
    const finished = await sandbox.runCommand("sh", [
      "-c",
      `value=$(cat ${setting}); echo "$value" > ${setting}`,
    ]);
    expect(finished.exitCode).not.toBe(0);
  });

  localTest("it checks for this machine's files")(
    "the host's home and data are not visible",
    async ({ skip }) => {
      await using service = await openService();
      if (service.isolation === "none") skip("there is no namespace");
      await using host = await temporaryDirectory();
      await writeFile(path.join(host.path, "secret"), "secret");
      const sandbox = await service.create({ persistent: false });
      for (const target of [host.path, service.dataDir, "/root", "/etc/shadow", import.meta.dirname]) {
        const finished = await sandbox.runCommand("ls", [target]);
        expect(finished.exitCode, target).not.toBe(0);
      }
    },
  );

  localTest("it checks this machine's files")(
    "symlinks in place of mount points do not lead the next session out of the namespace",
    async ({ skip }) => {
      await using service = await openService();
      if (service.isolation === "none") skip("there is no namespace");
      await using host = await temporaryDirectory();
      const sandbox = await service.create();
      const outside = `/oldroot${host.path}/made`;
      const replace = (target: string) =>
        `rm -rf ${target} 2>/dev/null; ln -s ${outside} ${target} 2>/dev/null`;
      for (const target of ["/vercel/runtimes", "/vercel/sandbox", "/home/vercel-sandbox", "/tmp", "/run"]) {
        await sandbox.runCommand({ cmd: "sh", args: ["-c", replace(target)], cwd: "/" });
      }
      await sandbox.stop();
      expect((await sandbox.runCommand({ cmd: "true", cwd: "/" })).exitCode).toBe(0);
      expect(readdirSync(host.path)).toEqual([]);
    },
  );

  isolationTest("a sandbox runs as an ordinary user with Node 24 first in PATH", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false, runtime: "node24" });
    expect(await sh(sandbox, "id -un; id -u")).toBe("vercel-sandbox\n1000");
    expect(await sh(sandbox, "node -p 'process.versions.node.split(`.`)[0]'")).toBe("24");
  });
});
