import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { createGzip } from "node:zlib";
import type { Sandbox } from "@vercel/sandbox";
import { type Header, pack } from "tar-stream";
import { describe, expect, test } from "vitest";
import { localTest, openService, refusedWith, type Service, sh } from "./testing/api.ts";

describe("through the SDK", () => {
  test("files are written with their modes into new directories", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    await sandbox.writeFiles([
      { path: "a/b/c.txt", content: "text" },
      { path: "/tmp/absolute", content: Buffer.from([0, 255, 10]) },
      { path: "run.sh", content: "#!/bin/sh\necho ran", mode: 0o755 },
      { path: "empty", content: "" },
    ]);
    expect(await sh(sandbox, "cat a/b/c.txt; stat -c %s empty; ./run.sh")).toBe("text0\nran");
    expect(await sandbox.readFileToBuffer({ path: "/tmp/absolute" })).toEqual(Buffer.from([0, 255, 10]));
  });

  test("a file is replaced by a shorter or a longer one", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    for (const content of ["long content", "short", "x".repeat(3_000_000)]) {
      await sandbox.writeFiles([{ path: "file", content }]);
      const read = await sandbox.readFileToBuffer({ path: "file" });
      expect(read?.equals(Buffer.from(content))).toBe(true);
    }
  });

  test("a missing file reads as null", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    expect(await sandbox.readFile({ path: "none" })).toBeNull();
    expect(await sandbox.readFile({ path: "none/in/none" })).toBeNull();
  });

  test("a relative path is resolved against the given directory", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    await sandbox.writeFiles([{ path: "sub/file", content: "here" }]);
    expect(String(await sandbox.readFileToBuffer({ path: "file", cwd: "/vercel/sandbox/sub" }))).toBe("here");
  });

  test("the SDK's `fs` works", async () => {
    await using service = await openService();
    const { fs } = await service.create({ persistent: false });
    await fs.mkdir("dir");
    await fs.writeFile("dir/file", "one");
    await fs.appendFile("dir/file", " two");
    expect(await fs.readFile("dir/file", "utf8")).toBe("one two");
    expect(await fs.readdir("dir")).toEqual(["file"]);
    expect((await fs.stat("dir/file")).size).toBe(7);
    await fs.rm("dir", { recursive: true });
    expect(await fs.exists("dir")).toBe(false);
  });

  localTest("Vercel's response is not known")(
    "a directory and a FIFO cannot be read or written",
    async () => {
      await using service = await openService();
      const sandbox = await service.create({ persistent: false });
      await sh(sandbox, "mkdir dir; mkfifo fifo");
      for (const path of ["dir", "fifo"]) {
        expect((await refusedWith(sandbox.readFile({ path }))).status).toBe(400);
        expect((await refusedWith(sandbox.writeFiles([{ path, content: "x" }]))).status).toBe(400);
      }
    },
  );
});

const rawTest = localTest("the SDK does not send it");

describe("requests that the SDK does not send", () => {
  rawTest("a symlink made in a sandbox leads to the sandbox's file, not the host's", async ({ skip }) => {
    await using service = await openService();
    if (service.isolation === "none") skip("there is no namespace");
    const sandbox = await service.create({ persistent: false });
    await sh(sandbox, "ln -s /etc/passwd link; ln -s / root; ln -s /root/.profile home");
    const passwd = String(await sandbox.readFileToBuffer({ path: "link" }));
    expect(passwd).toContain("vercel-sandbox");
    expect(passwd).toBe(`${await sh(sandbox, "cat /etc/passwd")}\n`);
    expect(await sandbox.readFileToBuffer({ path: "home" })).toBeNull();
    await sandbox.writeFiles([{ path: "root/tmp/through-link", content: "inside" }]);
    expect(await sh(sandbox, "cat /tmp/through-link")).toBe("inside");
    expect((await refusedWith(sandbox.writeFiles([{ path: "link", content: "x" }]))).status).toBe(400);
  });

  rawTest("a path with `..` ends at the sandbox's root", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    const climbing = "../../../../../../../../etc/shadow";
    expect(await sandbox.readFileToBuffer({ path: climbing })).toBeNull();
  });

  const bad: [string, Partial<Header> & { name: string }][] = [
    ["contains `..`", { name: "../../../../tmp/escaped" }],
    ["contains `..` in the middle", { name: "a/../../../../../tmp/escaped" }],
    ["is absolute", { name: "/tmp/escaped" }],
    ["is a symlink", { name: "link", type: "symlink", linkname: "/etc/passwd" }],
    ["is a hard link", { name: "link", type: "link", linkname: "/etc/passwd" }],
    ["is a device", { name: "device", type: "block-device", devmajor: 8, devminor: 0 }],
  ];
  for (const [what, header] of bad) {
    rawTest(`a tar entry that ${what} is refused and writes nothing`, async () => {
      await using service = await openService();
      const sandbox = await service.create({ persistent: false });
      const response = await upload(service, sandbox, await archive([header]));
      expect(response.status).toBe(400);
      expect(await sh(sandbox, "ls -A . /tmp | grep -E 'escaped|link|device' || echo nothing")).toBe(
        "nothing",
      );
    });
  }

  rawTest("an upload that is not a gzipped tar, or is truncated, is a 400", async () => {
    await using service = await openService();
    const sandbox = await service.create({ persistent: false });
    const whole = await archive([{ name: "file" }], "content".repeat(1_000));
    for (const body of [
      Buffer.from("not gzip"),
      await gzip(Buffer.alloc(1_000, 7)),
      whole.subarray(0, -20),
    ]) {
      expect((await upload(service, sandbox, body)).status).toBe(400);
    }
    expect(await sh(sandbox, "echo up")).toBe("up");
  });

  rawTest("an upload over a limit of size or number is a 413", async () => {
    const limits = {
      maxUploadBytes: 50_000,
      maxUnpackedBytes: 300_000,
      maxEntryBytes: 200_000,
      maxEntries: 3,
    };
    await using service = await openService({ limits });
    const sandbox = await service.create({ persistent: false });
    const bomb = [{ name: "a" }, { name: "b" }, { name: "c" }];
    const cases = [
      await archive([{ name: "random" }], Buffer.from(crypto.getRandomValues(new Uint8Array(60_000)))),
      await archive(bomb, "x".repeat(150_000)),
      await archive([{ name: "large" }], "x".repeat(250_000)),
      await archive([...bomb, { name: "d" }], "x"),
    ];
    for (const [index, body] of cases.entries()) {
      expect((await upload(service, sandbox, body)).status, String(index)).toBe(413);
    }
    expect((await upload(service, sandbox, await archive([{ name: "fine" }], "x"))).status).toBe(200);
  });

  rawTest("a command id that is a path is not found", async () => {
    await using service = await openService();
    const { sessionId } = (await service.create({ persistent: false })).currentSession();
    for (const id of ["..%2Fsession", "..%2F..%2F..%2Fsandboxes%2Fx", "%00"]) {
      const url = `${service.url}/api/v2/sandboxes/sessions/${sessionId}/cmd/${id}`;
      const headers = { authorization: "Bearer token" };
      expect((await fetch(url, { headers })).status, id).toBe(404);
      expect((await fetch(`${url}/logs`, { headers })).status, id).toBe(404);
    }
  });

  rawTest("a JSON body over the limit is a 413 and an invalid one a 400", async () => {
    await using service = await openService({ limits: { maxJsonBytes: 1_000 } });
    const post = (body: string) =>
      fetch(`${service.url}/api/v2/sandboxes`, {
        method: "POST",
        body,
        headers: { authorization: "Bearer token", "content-type": "application/json" },
      });
    expect((await post(JSON.stringify({ env: { A: "x".repeat(2_000) } }))).status).toBe(413);
    expect((await post("{")).status).toBe(400);
    expect((await post("[]")).status).toBe(400);
  });
});

async function upload(service: Service, sandbox: Sandbox, body: Buffer): Promise<Response> {
  const { sessionId } = sandbox.currentSession();
  return fetch(`${service.url}/api/v2/sandboxes/sessions/${sessionId}/fs/write`, {
    method: "POST",
    body: new Uint8Array(body),
    headers: {
      authorization: "Bearer token",
      "content-type": "application/gzip",
      "x-cwd": "/vercel/sandbox",
    },
  });
}

async function archive(
  headers: (Partial<Header> & { name: string })[],
  content: string | Buffer = "",
): Promise<Buffer> {
  const tar = pack();
  for (const header of headers) {
    // A copy, because the packer adds missing fields.
    if (header.type) tar.entry({ ...header });
    else tar.entry({ ...header }, content);
  }
  tar.finalize();
  const chunks: Buffer[] = [];
  for await (const chunk of tar as AsyncIterable<Buffer>) chunks.push(chunk);
  return gzip(Buffer.concat(chunks));
}

async function gzip(bytes: Buffer): Promise<Buffer> {
  return buffer(Readable.from([bytes]).pipe(createGzip()));
}
