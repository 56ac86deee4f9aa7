import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { type GitServer, startGitServer } from "./git-server.ts";
import { gitEnvironment } from "./git-server-repos.ts";

const run = promisify(execFile);

/** A clone of `app` with the credential in its URL, which is no secret here. */
class Clone implements Disposable {
  readonly directory = mkdtempSync(join(tmpdir(), "concierge-git-client-"));

  static async of(server: GitServer, { token } = server): Promise<Clone> {
    const clone = new Clone();
    const url = new URL(`${server.url}/app.git`);
    url.username = server.username;
    url.password = token;
    await clone.git("clone", "--quiet", url.href, ".").catch((error) => {
      clone[Symbol.dispose]();
      throw error;
    });
    return clone;
  }

  /** One connection per request: on a reused one, curl repeats a request that breaks. */
  async git(...args: string[]): Promise<string> {
    const env = { ...gitEnvironment, GIT_TERMINAL_PROMPT: "0" };
    const options = ["-c", "http.extraHeader=Connection: close"];
    return (await run("git", [...options, ...args], { cwd: this.directory, env })).stdout.trim();
  }

  async commit(text: string): Promise<string> {
    writeFileSync(join(this.directory, "file.txt"), text);
    await this.git("add", "--all");
    await this.git("commit", "--quiet", "--message", text);
    return this.git("rev-parse", "HEAD");
  }

  [Symbol.dispose](): void {
    rmSync(this.directory, { recursive: true, force: true });
  }
}

test("a push is applied and recorded as one ref update", async () => {
  await using server = await startGitServer();
  const { url } = server.createRepo("app", { files: { "a/b.txt": "begin\n" } });
  expect(url).toBe(`${server.url}/app.git`);
  const before = server.branch("app", "main");
  using clone = await Clone.of(server);
  const commit = await clone.commit("more");
  await clone.git("push", "--quiet", "origin", "HEAD:main", "HEAD:refs/heads/next");
  expect([server.branch("app", "main"), server.branch("app", "next")]).toEqual([commit, commit]);
  expect(server.branch("app", "other")).toBeUndefined();
  expect(server.show("app", "main", "a/b.txt")).toBe("begin\n");
  expect(server.show("app", "main", "file.txt")).toBe("more");
  expect(server.show("app", "main", "nothing")).toBeUndefined();
  expect(server.log("app", "main").map((entry) => entry.message)).toEqual(["more", "On the remote"]);
  expect(server.pushes).toEqual([
    { repo: "app", ref: "refs/heads/main", from: before, to: commit, at: expect.any(Date) },
    { repo: "app", ref: "refs/heads/next", from: undefined, to: commit, at: expect.any(Date) },
  ]);
});

test("a request without the right credential answers 401 and does not reach git", async () => {
  await using server = await startGitServer({ username: "me", token: "the-right-token" });
  server.createRepo("app");
  await expect(Clone.of(server, { ...server, token: "another-token" })).rejects.toThrow(
    "Authentication failed",
  );
  const response = await fetch(`${server.url}/app.git/info/refs?service=git-upload-pack`);
  expect([response.status, response.headers.get("www-authenticate")]).toEqual([401, 'Basic realm="git"']);
  expect(server.requests.map(({ authorized, status }) => [authorized, status])).toEqual(
    server.requests.map(() => [false, 401]),
  );
});

test.each([
  ["drop-before", false],
  ["drop-after", true],
] as const)("a push with %s fails; applied: %s", async (how, applied) => {
  await using server = await startGitServer();
  server.createRepo("app");
  using clone = await Clone.of(server);
  const commit = await clone.commit("more");
  server.fail({ on: "receive-pack", how });
  await expect(clone.git("push", "origin", "HEAD:main")).rejects.toThrow();
  expect(server.branch("app", "main") === commit).toBe(applied);
  expect(server.pushes).toHaveLength(applied ? 1 : 0);
  expect(pushRequests(server)).toBe(1);
});

function pushRequests(server: GitServer): number {
  return server.requests.filter(({ path }) => path.endsWith("/git-receive-pack")).length;
}

test("a status fault is answered as often as configured", async () => {
  await using server = await startGitServer();
  server.createRepo("app", { branch: "trunk" });
  server.fail({ on: "info/refs", how: "status", status: 503, times: 2 });
  for (const _ of [1, 2]) await expect(Clone.of(server)).rejects.toThrow("returned error: 503");
  using clone = await Clone.of(server);
  expect(await clone.git("branch", "--show-current")).toBe("trunk");
});

test("a held push continues when released, and ends when its client leaves", async () => {
  await using server = await startGitServer();
  server.createRepo("app");
  using clone = await Clone.of(server);
  const commit = await clone.commit("more");

  const held = server.hold("receive-pack");
  const push = clone.git("push", "origin", "HEAD:main");
  await held.reached;
  expect(server.branch("app", "main")).not.toBe(commit);
  held.release();
  await push;
  expect(server.branch("app", "main")).toBe(commit);

  const abandoned = server.hold("receive-pack");
  const controller = new AbortController();
  const request = fetch(`${server.url}/app.git/git-receive-pack`, {
    method: "POST",
    headers: { authorization: `Basic ${btoa(`${server.username}:${server.token}`)}` },
    body: "0000",
    signal: controller.signal,
  });
  await abandoned.reached;
  controller.abort();
  await expect(request).rejects.toThrow();
  await abandoned.abandoned;
  expect(server.requests.at(-1)?.status).toBeUndefined();
});

test("a closed server leaves no repository and answers nobody, even with a held push", async () => {
  const server = await startGitServer();
  server.createRepo("app");
  using clone = await Clone.of(server);
  await clone.commit("more");
  const held = server.hold("receive-pack");
  const push = clone.git("push", "origin", "HEAD:main");
  await held.reached;
  await Promise.all([server.close(), expect(push).rejects.toThrow()]);
  expect(server.branch("app", "main")).toBeUndefined();
  await expect(fetch(server.url)).rejects.toThrow();
});
