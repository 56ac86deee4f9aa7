import { execFileSync, spawn } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { gzipSync } from "node:zlib";
import { pack } from "tar-stream";
import { describe, expect } from "vitest";
import { localTest, openService, refusedWith, sh, temporaryDirectory } from "./testing/api.ts";

const cloneTest = localTest("it clones from this machine");
const withLoopback = { network: { allowPrivate: "all" as const } };
const credential = { username: "someone", password: "s3cret-token" };

describe("a git source", () => {
  cloneTest("is cloned into the working directory", async () => {
    await using git = await gitServer();
    await using service = await openService(withLoopback);
    const sandbox = await service.create({ source: { type: "git", url: git.url } });
    expect(
      await sh(sandbox, "cat file; echo; git rev-parse --abbrev-ref HEAD; git log --oneline | wc -l"),
    ).toBe("second\nmain\n2");
  });

  cloneTest("has the requested depth", async () => {
    await using git = await gitServer();
    await using service = await openService(withLoopback);
    const sandbox = await service.create({ source: { type: "git", url: git.url, depth: 1 } });
    expect(await sh(sandbox, "git log --oneline | wc -l")).toBe("1");
  });

  cloneTest("is checked out at a branch, a tag, or a full or short commit", async () => {
    await using git = await gitServer();
    await using service = await openService(withLoopback);
    const expected: [string, string][] = [
      ["other", "branch"],
      ["v1", "first"],
      [git.firstCommit, "first"],
      [git.firstCommit.slice(0, 10), "first"],
    ];
    for (const [revision, content] of expected) {
      for (const depth of [undefined, 1]) {
        const source = { type: "git" as const, url: git.url, revision, ...(depth && { depth }) };
        const sandbox = await service.create({ source, persistent: false });
        expect(await sh(sandbox, "cat file"), `${revision} ${depth}`).toBe(content);
      }
    }
  });

  cloneTest("with a password is cloned and the password is not stored", async () => {
    await using git = await gitServer(credential);
    await using service = await openService(withLoopback);
    const fromFields = await service.create({ source: { type: "git", url: git.url, ...credential } });
    const inUrl = git.url.replace("http://", `http://${credential.username}:${credential.password}@`);
    const fromUrl = await service.create({ source: { type: "git", url: inUrl } });
    for (const sandbox of [fromFields, fromUrl]) {
      expect(await sh(sandbox, "cat file")).toBe("second");
    }
    const found = execFileSync("sh", ["-c", `grep -rl ${credential.password} ${service.dataDir} || true`]);
    expect(found.toString()).toBe("");
  });

  cloneTest("that cannot be cloned is a 400 without the password and leaves no sandbox", async () => {
    await using git = await gitServer(credential);
    await using service = await openService(withLoopback);
    const source = { type: "git" as const, url: git.url, username: "x", password: "wrong-password" };
    const failed = service.create({ name: "failed", source });
    const error = await failed.catch((reason: Error) => reason);
    expect(String(error)).not.toContain("wrong-password");
    expect(await refusedWith(failed)).toEqual({ status: 400, code: "git_clone_failed" });
    expect((await service.stats()).running).toBe(0);
    expect((await service.create({ name: "failed" })).name).toBe("failed");
  });

  cloneTest("must have an HTTP URL and a revision that is not an option", async () => {
    await using service = await openService(withLoopback);
    for (const url of ["file:///etc", "ext::sh -c id", "ssh://host/repo", "/etc"]) {
      expect((await refusedWith(service.create({ source: { type: "git", url } }))).status, url).toBe(400);
    }
    const source = { type: "git" as const, url: "http://127.0.0.1:1/x", revision: "--upload-pack=id" };
    expect((await refusedWith(service.create({ source }))).status).toBe(400);
  });
});

cloneTest("a tarball source is unpacked into the working directory", async () => {
  const tar = pack();
  tar.entry({ name: "dir/file" }, "from a tarball");
  tar.finalize();
  const chunks: Buffer[] = [];
  for await (const chunk of tar as AsyncIterable<Buffer>) chunks.push(chunk);
  const body = gzipSync(Buffer.concat(chunks));
  await using server = await listen((_request, response) => response.end(body));
  await using service = await openService(withLoopback);
  const sandbox = await service.create({ source: { type: "tarball", url: `${server.url}/x.tgz` } });
  expect(await sh(sandbox, "cat dir/file")).toBe("from a tarball");
});

async function gitServer(credential?: { username: string; password: string }) {
  const directory = await temporaryDirectory();
  const work = path.join(directory.path, "work");
  await mkdir(work);
  const git = (...args: string[]) =>
    execFileSync("git", args, { cwd: work, encoding: "utf8", env: gitEnvironment, stdio: "pipe" }).trim();
  const commit = async (content: string) => {
    await writeFile(path.join(work, "file"), content);
    git("add", ".");
    git("commit", "-m", content);
  };
  git("init", "-b", "main");
  await commit("first");
  git("tag", "v1");
  const firstCommit = git("rev-parse", "HEAD");
  git("checkout", "-b", "other");
  await commit("branch");
  git("checkout", "main");
  await commit("second");
  git("clone", "--bare", work, path.join(directory.path, "repo.git"));

  const wanted =
    credential && Buffer.from(`${credential.username}:${credential.password}`).toString("base64");
  const server = await listen((request, response) => {
    if (wanted && request.headers.authorization !== `Basic ${wanted}`) {
      response.writeHead(401, { "www-authenticate": "Basic" }).end();
      return;
    }
    serveGit(directory.path, request, response);
  });
  return {
    url: `${server.url}/repo.git`,
    firstCommit,
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      await directory[Symbol.asyncDispose]();
    },
  };
}

const gitEnvironment = {
  PATH: process.env.PATH,
  HOME: "/nonexistent",
  GIT_AUTHOR_NAME: "A",
  GIT_AUTHOR_EMAIL: "a@example.com",
  GIT_COMMITTER_NAME: "A",
  GIT_COMMITTER_EMAIL: "a@example.com",
};

/** Runs `git http-backend` with the minimum of CGI. */
function serveGit(root: string, request: IncomingMessage, response: ServerResponse): void {
  const url = new URL(request.url ?? "/", "http://localhost");
  const backend = spawn("git", ["http-backend"], {
    env: {
      PATH: process.env.PATH,
      GIT_PROJECT_ROOT: root,
      GIT_HTTP_EXPORT_ALL: "1",
      PATH_INFO: url.pathname,
      QUERY_STRING: url.search.slice(1),
      REQUEST_METHOD: request.method,
      CONTENT_TYPE: request.headers["content-type"],
      HTTP_CONTENT_ENCODING: request.headers["content-encoding"],
      HTTP_GIT_PROTOCOL: request.headers["git-protocol"] as string | undefined,
    },
  });
  request.pipe(backend.stdin);
  const chunks: Buffer[] = [];
  backend.stdout.on("data", (chunk: Buffer) => chunks.push(chunk));
  backend.on("close", () => {
    const output = Buffer.concat(chunks);
    const end = output.indexOf("\r\n\r\n");
    for (const line of output.toString("utf8", 0, end).split("\r\n")) {
      const [name = "", value = ""] = line.split(": ");
      if (name === "Status") response.statusCode = Number.parseInt(value, 10);
      else response.setHeader(name, value);
    }
    response.end(output.subarray(end + 4));
  });
}

async function listen(handle: (request: IncomingMessage, response: ServerResponse) => void) {
  const server = createServer(handle);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
