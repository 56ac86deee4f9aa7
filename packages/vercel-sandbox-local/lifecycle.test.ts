import { randomUUID } from "node:crypto";
import { Sandbox } from "@vercel/sandbox";
import { describe, expect, test } from "vitest";
import { localTest, openService, refusedWith, sh } from "./testing/api.ts";

describe("creating", () => {
  test("a sandbox is created with all requested settings", async () => {
    await using service = await openService();
    const name = `box-${randomUUID()}`;
    const sandbox = await service.create({
      name,
      runtime: "node24",
      timeout: 120_000,
      tags: { team: "infra", env: "test" },
      env: { GREETING: "hello" },
      resources: { vcpus: 4 },
      ports: [3000],
      persistent: false,
    });
    expect(sandbox).toMatchObject({
      name,
      status: "running",
      persistent: false,
      runtime: "node24",
      timeout: 120_000,
      vcpus: 4,
      memory: 8192,
      cwd: "/vercel/sandbox",
      tags: { team: "infra", env: "test" },
    });
    expect(sandbox.routes.map(({ port }) => port)).toEqual([3000]);
    expect(sandbox.domain(3000)).toMatch(/^https:\/\/.+\.vercel\.run$/);
    expect(await sh(sandbox, "echo $GREETING; pwd")).toBe("hello\n/vercel/sandbox");
  });

  test("an existing name is a 400 and does not affect the first sandbox", async () => {
    await using service = await openService();
    const first = await service.create({ name: `box-${randomUUID()}` });
    expect(await refusedWith(service.create({ name: first.name }))).toEqual({
      status: 400,
      code: "bad_request",
    });
    expect(await sh(first, "echo here")).toBe("here");
  });

  test("one of ten concurrent creates with the same name wins", async () => {
    await using service = await openService();
    const name = `box-${randomUUID()}`;
    const results = await Promise.allSettled(Array.from({ length: 10 }, () => service.create({ name })));
    expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
  });

  test("getOrCreate creates once and then gets", async () => {
    await using service = await openService();
    const created: string[] = [];
    const params = {
      ...service.credentials,
      name: `box-${randomUUID()}`,
      onCreate: async (sandbox: Sandbox) => void created.push(sandbox.name),
    };
    const first = await Sandbox.getOrCreate(params);
    const second = await Sandbox.getOrCreate(params);
    expect(second.currentSession().sessionId).toBe(first.currentSession().sessionId);
    expect(created).toEqual([params.name]);
    await first.delete();
  });

  test.each([
    ["more than five tags", { tags: { a: "1", b: "2", c: "3", d: "4", e: "5", f: "6" } }],
    ["a timeout of more than a day", { timeout: 25 * 3_600_000 }],
    ["a timeout of zero", { timeout: 0 }],
    ["a name with a slash", { name: "a/b" }],
    ["an unknown runtime", { runtime: "cobol" }],
    ["sixteen ports", { ports: Array.from({ length: 16 }, (_, index) => 3000 + index) }],
  ])("%s is a 400", async (_what, params) => {
    await using service = await openService();
    expect((await refusedWith(service.create(params))).status).toBe(400);
  });

  test("a network policy is accepted and reported without header values", async () => {
    await using service = await openService();
    const sandbox = await service.create({
      networkPolicy: {
        allow: {
          "api.example.com": [{ transform: [{ headers: { authorization: "secret" } }] }],
          "*.npmjs.org": [],
        },
        subnets: { deny: ["10.0.0.0/8"] },
      },
    });
    expect(sandbox.networkPolicy).toEqual({
      allow: {
        "api.example.com": [{ transform: [{ headers: { authorization: "<redacted>" } }] }],
        "*.npmjs.org": [],
      },
      subnets: { deny: ["10.0.0.0/8"] },
    });
    expect(await sandbox.updateNetworkPolicy("deny-all")).toBe("deny-all");
  });
});

describe("getting and listing", () => {
  test("a missing sandbox is a 404", async () => {
    await using service = await openService();
    const missing = Sandbox.get({ ...service.credentials, name: `no-${randomUUID()}` });
    expect(await refusedWith(missing)).toEqual({ status: 404, code: "not_found" });
  });

  test("getting a stopped sandbox resumes it only on request", async () => {
    await using service = await openService();
    const sandbox = await service.create();
    const { name } = sandbox;
    await sandbox.stop();
    expect((await Sandbox.get({ ...service.credentials, name })).status).toBe("stopped");
    let resumes = 0;
    const onResume = async () => {
      resumes += 1;
    };
    const again = await Sandbox.get({ ...service.credentials, name, resume: true, onResume });
    expect(again.status).toBe("running");
    expect(resumes).toBe(1);
  });

  test("a list is filtered by tag and by prefix", async () => {
    await using service = await openService();
    const mark = randomUUID();
    await service.create({ name: `one-${mark}`, tags: { mark, kind: "a" } });
    await service.create({ name: `two-${mark}`, tags: { mark, kind: "b" } });
    const byTag = await Sandbox.list({ ...service.credentials, tags: { mark } });
    expect(byTag.sandboxes.map(({ name }) => name).sort()).toEqual([`one-${mark}`, `two-${mark}`]);
    const byPrefix = await Sandbox.list({
      ...service.credentials,
      namePrefix: `two-${mark}`,
      sortBy: "name",
    });
    expect(byPrefix.sandboxes.map(({ name }) => name)).toEqual([`two-${mark}`]);
  });

  localTest("it expects no other sandboxes")("pages list each sandbox once in both orders", async () => {
    await using service = await openService();
    const names = ["a", "b", "c", "d", "e"];
    for (const name of names) await service.create({ name, persistent: false });
    const list = (sortOrder: "asc" | "desc") =>
      Sandbox.list({ ...service.credentials, limit: 2, sortBy: "name", sortOrder });
    const ascending = await list("asc");
    expect(ascending.pagination).toMatchObject({ count: 2, next: expect.any(String) });
    expect((await ascending.toArray()).map(({ name }) => name)).toEqual(names);
    expect((await (await list("desc")).toArray()).map(({ name }) => name)).toEqual(names.toReversed());
  });

  localTest("it changes the list between pages")(
    "a page is correct after an earlier sandbox was deleted",
    async () => {
      await using service = await openService();
      const sandboxes = [];
      for (const name of ["a", "b", "c"]) sandboxes.push(await service.create({ name }));
      const page = await Sandbox.list({ ...service.credentials, limit: 1, sortBy: "name", sortOrder: "asc" });
      await sandboxes[0]?.delete();
      expect((await page.toArray()).map(({ name }) => name)).toEqual(["a", "b", "c"]);
    },
  );

  localTest("it needs two projects")("a project does not see sandboxes of another", async () => {
    await using service = await openService();
    await service.create({ name: "mine" });
    const other = { ...service.credentials, projectId: "prj_other" };
    expect((await Sandbox.list(other)).sandboxes).toEqual([]);
    expect((await refusedWith(Sandbox.get({ ...other, name: "mine" }))).status).toBe(404);
  });
});

describe("changing and deleting", () => {
  test("an update changes only the given settings", async () => {
    await using service = await openService();
    const sandbox = await service.create({ tags: { a: "1" }, timeout: 60_000 });
    await sandbox.update({ tags: { b: "2" }, timeout: 90_000, persistent: false });
    const read = await Sandbox.get({ ...service.credentials, name: sandbox.name });
    expect(read).toMatchObject({
      tags: { b: "2" },
      timeout: 90_000,
      persistent: false,
      vcpus: sandbox.vcpus,
    });
    expect(read.currentSession().timeout).toBe(90_000);
  });

  test("a deleted sandbox and its session are gone and the name is free", async () => {
    await using service = await openService();
    const sandbox = await service.create();
    await sandbox.delete();
    const { name } = sandbox;
    expect((await refusedWith(Sandbox.get({ ...service.credentials, name }))).status).toBe(404);
    expect((await refusedWith(sandbox.currentSession().runCommand("true"))).status).toBe(404);
    expect((await service.create({ name })).name).toBe(name);
  });

  test("a fork starts with the files and settings of its origin and then diverges", async () => {
    await using service = await openService();
    const origin = await service.create({ env: { COLOUR: "red" }, tags: { kind: "origin" } });
    await sh(origin, "echo origin > file");
    await origin.stop();
    const fork = await Sandbox.fork({
      ...service.credentials,
      sourceSandbox: origin.name,
      tags: { kind: "fork" },
    });
    expect(await sh(fork, "cat file; echo $COLOUR; echo fork > file")).toBe("origin\nred");
    expect(fork.tags).toEqual({ kind: "fork" });
    expect(await sh(origin, "cat file")).toBe("origin");
    await fork.delete();
  });
});
