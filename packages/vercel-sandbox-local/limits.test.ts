import { describe, expect, test } from "vitest";
import { seccompFilter } from "./isolation/seccomp.ts";
import { isolationTest, openService, sh } from "./testing/api.ts";

const eperm = 1;
const enospc = 28;
const enosys = 38;

describe("the system calls of a sandbox", () => {
  isolationTest("exclude those that lead out of containers", async ({ skip }) => {
    if (process.arch !== "x64") skip("the numbers below are those of x64");
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    expect(await sh(sandbox, "grep '^Seccomp:' /proc/self/status")).toMatch(/\s2$/);
    // Each call would do something, or complain about its arguments, without the filter.
    const calls: [name: string, errno: number, ...args: number[]][] = [
      ["mount 165", eperm],
      ["keyctl 250", eperm, 0, -3, 1],
      ["add_key 248", eperm],
      ["userfaultfd 323", eperm, 1],
      ["io_uring_setup 425", eperm, 1, 0],
      ["perf_event_open 298", eperm],
      ["bpf 321", eperm, 0, 0, 0],
      ["open_tree 428", eperm, -1, 0, 0],
      ["fsopen 430", eperm],
      ["clone with a network 56", eperm, 0x40000000 | 17],
      ["clone3 435", enosys],
      ["unshare of mounts 272", eperm, 0x20000],
      ["unshare of the user 272", enospc, 0x10000000],
      ["a call of the x32 ABI 1073741863", enosys],
    ];
    for (const [name, errno, ...args] of calls) {
      const list = [name.split(" ").at(-1), ...args, 0, 0, 0, 0, 0].slice(0, 6).join(", ");
      const code = `my $r = syscall(${list}); print $r == -1 ? $!+0 : "done";`;
      const finished = await sandbox.runCommand("perl", ["-e", code]);
      expect(await finished.stdout(), name).toBe(String(errno));
    }
  });

  isolationTest("are enough for node, git, npm and threads", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    const threads =
      'const w = new (require("worker_threads").Worker)("0", {eval: true}); w.on("exit", console.log)';
    expect(await (await sandbox.runCommand("node", ["-e", threads])).output("both")).toBe("0\n");
    expect(
      await sh(
        sandbox,
        "git init -q x && cd x && git -c user.name=a -c user.email=a@b.c commit -qm a --allow-empty && git log --format=%s",
      ),
    ).toBe("a");
  });

  test("have a filter for x64 and arm64, and for no other architecture", () => {
    expect(seccompFilter("x64")?.length).toBeGreaterThan(300);
    expect(seccompFilter("arm64")?.length).toBeGreaterThan(300);
    expect(seccompFilter("x64")?.equals(seccompFilter("arm64") ?? Buffer.of())).toBe(false);
    expect(seccompFilter("riscv64")).toBeUndefined();
  });
});

describe("the limits of a sandbox", () => {
  isolationTest("end a fork bomb, and leave the sandbox usable", async () => {
    await using service = await openService({ limits: { process: { processes: 60 } } });
    const sandbox = await service.create({ persistent: false });
    const bomb = "for i in $(seq 300); do sleep 60 & done; wait";
    const finished = await sandbox.runCommand("bash", ["-c", bomb]);
    expect(finished.exitCode).not.toBe(0);
    expect(await finished.stderr()).toMatch(/more than 60 processes|Resource temporarily unavailable/);
    await expect
      .poll(() => sh(sandbox, "ls -d /proc/[0-9]* | wc -l"), { timeout: 10_000 })
      .toMatch(/^[1-9]$/);
  });

  isolationTest("count threads as processes", async () => {
    await using service = await openService({ limits: { process: { processes: 30 } } });
    const sandbox = await service.create({ persistent: false });
    const code =
      'for (let i = 0; i < 25; i++) new (require("worker_threads").Worker)("setInterval(() => {}, 1e4)", {eval: true})';
    const finished = await sandbox.runCommand("node", ["-e", code]);
    expect(finished.exitCode).not.toBe(0);
  });

  isolationTest("kill the process that uses most memory, and no other", async () => {
    await using service = await openService({ limits: { process: { memoryBytes: 300 * 1024 * 1024 } } });
    const sandbox = await service.create({ persistent: false });
    const small = await sandbox.runCommand({ cmd: "sleep", args: ["300"], detached: true });
    const code = "const all = []; setInterval(() => all.push(Buffer.alloc(20e6, 1)), 20)";
    const finished = await sandbox.runCommand("node", ["-e", code]);
    expect(finished.exitCode).toBe(137);
    expect(await finished.stderr()).toContain("used more than 300 MB");
    expect((await sandbox.getCommand(small.cmdId)).exitCode).toBeNull();
  });

  isolationTest("apply to the size of a file, and to memory that looks like a disk", async () => {
    await using service = await openService({ limits: { process: { fileBytes: 1024 * 1024 } } });
    const sandbox = await service.create({ persistent: false });
    expect(await sh(sandbox, "head -c 3000000 /dev/zero > file 2>/dev/null || stat -c %s file")).toBe(
      "1048576",
    );
    expect(await sh(sandbox, "df -B1 --output=size /dev/shm | tail -1")).toBe(String(512 * 1024 * 1024));
    for (const directory of ["", "/home", "/vercel", "/dev", "/run", "/var"]) {
      expect(await sh(sandbox, `touch ${directory}/file 2>/dev/null && echo written || echo refused`)).toBe(
        "refused",
      );
    }
  });
});
