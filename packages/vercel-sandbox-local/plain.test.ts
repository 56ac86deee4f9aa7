import { randomUUID } from "node:crypto";
import { describe, expect, vi } from "vitest";
import { alive, headless } from "../../test/testing/processes.ts";
import { localTest, openService, refusedWith, sh } from "./testing/api.ts";

const plainTest = localTest("it disables isolation");

describe("without isolation", () => {
  plainTest("a warning says so", async () => {
    const write = vi.spyOn(process.stderr, "write").mockReturnValue(true);
    await using service = await openService({ isolation: "none" });
    const said = write.mock.calls.map(([line]) => String(line)).join("");
    write.mockRestore();
    expect(service.isolation).toBe("none");
    expect(said).toContain("NOT ISOLATED");
  });

  plainTest("commands run in the sandbox's directory with its home and a clean environment", async () => {
    process.env.SECRET_OF_THE_API = "leaked";
    await using service = await openService({ isolation: "none" });
    const sandbox = await service.create({ env: { A: "1" } });
    await sandbox.writeFiles([{ path: "/vercel/sandbox/file", content: "here" }]);
    const output = await sh(sandbox, "cat file; echo; echo $A; pwd; echo $HOME; env");
    delete process.env.SECRET_OF_THE_API;
    expect(output).toMatch(/^here\n1\n.*\/vercel\/sandbox\n.*\/home\/vercel-sandbox\n/);
    expect(output).not.toContain("leaked");
    await sandbox.stop();
    expect(await sh(sandbox, "cat file")).toBe("here");
  });

  plainTest("daemons that left their process group die with the sandbox", async () => {
    await using service = await openService({ isolation: "none" });
    const sandbox = await service.create({ persistent: false });
    const mark = `6${Date.now()}`;
    await sh(sandbox, `setsid sleep ${mark} </dev/null >/dev/null 2>&1 & ${headless(mark)}`);
    await vi.waitUntil(() => alive(mark).length === 2);
    await sandbox.stop();
    expect(alive(mark)).toEqual([]);
  });

  plainTest("the API does not follow a symlink out of the sandbox's directory", async () => {
    await using service = await openService({ isolation: "none" });
    const sandbox = await service.create({ persistent: false });
    const target = `/tmp/${randomUUID()}`;
    await sh(sandbox, `ln -s /etc/passwd link; ln -s / root; ln -s ${target} dangling`);
    for (const path of ["link", "root/etc/passwd"]) {
      expect((await refusedWith(sandbox.readFile({ path }))).status).toBe(400);
    }
    for (const path of ["link", `root${target}`, "dangling"]) {
      expect((await refusedWith(sandbox.writeFiles([{ path, content: "x" }]))).status, path).toBe(400);
    }
  });
});
