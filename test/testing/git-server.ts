import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import { createRepos, gitEnvironment, type RefUpdate, type Repos } from "./git-server-repos.ts";

/** What a client asks for: refs, objects, or a push. */
export type Service = "info/refs" | "upload-pack" | "receive-pack";

export interface ServedRequest {
  method: string;
  path: string;
  authorized: boolean;
  /** Undefined while there is no response, and if the connection was dropped. */
  status: number | undefined;
  at: Date;
}

/**
 * `drop-before`: the connection breaks before git sees the request. `drop-after`: git has done it all, but the response
 * is lost. Only requests with the right credential are counted.
 */
export type Fault =
  | { on: Service; how: "drop-before" | "drop-after"; times?: number }
  | { on: Service; how: "status"; status: number; times?: number };

export interface Hold {
  /** The next request for the service arrived completely, and git has not seen it. */
  reached: Promise<void>;
  /** Its client left before it was released: git never sees it. */
  abandoned: Promise<void>;
  release(): void;
}

/** A git server over smart HTTP with git's own backend. Repositories are named without `.git`. */
export interface GitServer extends Pick<Repos, "commit" | "branch" | "log" | "show">, AsyncDisposable {
  url: string;
  username: string;
  token: string;
  /** Without files if `files` is empty; with a README if it is absent. */
  createRepo(name: string, options?: { files?: Record<string, string>; branch?: string }): { url: string };
  /** The ref updates that were really applied. */
  readonly pushes: readonly RefUpdate[];
  readonly requests: readonly ServedRequest[];
  fail(fault: Fault): void;
  /** Ends all faults. */
  mend(): void;
  hold(on: Service): Hold;
  close(): Promise<void>;
}

interface Gate {
  on: Service;
  reached: PromiseWithResolvers<void>;
  abandoned: PromiseWithResolvers<void>;
  released: PromiseWithResolvers<void>;
}

export async function startGitServer(
  options: { username?: string; token?: string } = {},
): Promise<GitServer> {
  const { username = "x-access-token", token = `git-${randomUUID()}` } = options;
  const repos = createRepos();
  const requests: ServedRequest[] = [];
  const children = new Set<ChildProcess>();
  const faults: { fault: Fault; left: number }[] = [];
  const gates: Gate[] = [];
  const served = new Set<Promise<void>>();

  const server = createServer((request, response) => {
    const answered = answer(request, response).catch(() => void response.destroy());
    served.add(answered);
    void answered.finally(() => served.delete(answered));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the git server has no port");
  const url = `http://127.0.0.1:${address.port}`;

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = "", url: path = "" } = request;
    const authorized = isRight(request.headers.authorization, `${username}:${token}`);
    const entry: ServedRequest = { method, path, authorized, status: undefined, at: new Date() };
    requests.push(entry);
    const body = await readBody(request);
    if (!authorized) return reply({ status: 401, headers: [["WWW-Authenticate", 'Basic realm="git"']] });

    const service = serviceOf(path);
    const fault = takeFault(service);
    if (fault?.how === "drop-before") return void response.destroy();
    if (fault?.how === "status") return reply({ status: fault.status });
    if (!(await passGate(service, response))) return;
    const result = await runBackend(request, body);
    if (fault?.how === "drop-after") return void response.destroy();
    reply(result);

    function reply({ status, headers = [], body = Buffer.alloc(0) }: Reply): void {
      entry.status = status;
      response.writeHead(status, headers.flat()).end(body);
    }
  }

  function takeFault(service: Service | undefined): Fault | undefined {
    const found = faults.find(({ fault, left }) => fault.on === service && left > 0);
    if (found !== undefined) found.left--;
    return found?.fault;
  }

  /** False if the client did not wait. */
  async function passGate(service: Service | undefined, response: ServerResponse): Promise<boolean> {
    const at = gates.findIndex((gate) => gate.on === service);
    const [gate] = at === -1 ? [] : gates.splice(at, 1);
    if (gate === undefined) return true;
    const gone = once(response, "close").then(() => false);
    gate.reached.resolve();
    const passed = await Promise.race([gate.released.promise.then(() => true), gone]);
    if (!passed) gate.abandoned.resolve();
    return passed;
  }

  async function runBackend(request: IncomingMessage, body: Buffer): Promise<Reply> {
    const { pathname, search } = new URL(request.url ?? "", url);
    const child = spawn("git", ["http-backend"], {
      env: {
        ...gitEnvironment,
        GIT_PROJECT_ROOT: repos.root,
        GIT_HTTP_EXPORT_ALL: "1",
        REMOTE_USER: username,
        REMOTE_ADDR: "127.0.0.1",
        REQUEST_METHOD: request.method,
        PATH_INFO: pathname,
        QUERY_STRING: search.slice(1),
        CONTENT_TYPE: request.headers["content-type"] ?? "",
        CONTENT_LENGTH: String(body.length),
        HTTP_CONTENT_ENCODING: request.headers["content-encoding"] ?? "",
        GIT_PROTOCOL: String(request.headers["git-protocol"] ?? ""),
      },
      stdio: ["pipe", "pipe", "ignore"],
      detached: true,
    });
    children.add(child);
    const parts: Buffer[] = [];
    child.stdout.on("data", (part: Buffer) => parts.push(part));
    const closed = once(child, "close");
    // The backend may answer without reading everything.
    await pipeline([body], child.stdin).catch(() => {});
    await closed;
    children.delete(child);
    return parseCgi(Buffer.concat(parts));
  }

  async function close(): Promise<void> {
    server.close();
    server.closeAllConnections();
    for (const child of children) killGroup(child);
    await Promise.all(served);
    repos[Symbol.dispose]();
  }

  return {
    url,
    username,
    token,
    createRepo(name, { files = { "README.md": `# ${name}\n` }, branch = "main" } = {}) {
      repos.create(name, branch);
      if (Object.keys(files).length > 0) repos.commit(name, branch, files);
      return { url: `${url}/${name}.git` };
    },
    commit: repos.commit,
    branch: repos.branch,
    log: repos.log,
    show: repos.show,
    get pushes() {
      return repos.updates();
    },
    requests,
    fail(fault) {
      faults.push({ fault, left: fault.times ?? 1 });
    },
    mend() {
      faults.length = 0;
    },
    hold(on) {
      const [reached, abandoned, released] = [deferred(), deferred(), deferred()];
      gates.push({ on, reached, abandoned, released });
      return { reached: reached.promise, abandoned: abandoned.promise, release: released.resolve };
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

function deferred(): PromiseWithResolvers<void> {
  return Promise.withResolvers();
}

function serviceOf(path: string): Service | undefined {
  return (["info/refs", "upload-pack", "receive-pack"] as const).find((service) =>
    path.split("?")[0]?.endsWith(service === "info/refs" ? "/info/refs" : `/git-${service}`),
  );
}

function isRight(authorization: string | undefined, expected: string): boolean {
  const given = Buffer.from(authorization ?? "");
  const wanted = Buffer.from(`Basic ${Buffer.from(expected).toString("base64")}`);
  return given.length === wanted.length && timingSafeEqual(given, wanted);
}

interface Reply {
  status: number;
  headers?: [string, string][];
  body?: Buffer;
}

/** A CGI program's response: headers including `Status`, an empty line, the body. */
function parseCgi(output: Buffer): Reply {
  const end = output.indexOf("\r\n\r\n");
  const headers = output
    .toString("latin1", 0, Math.max(0, end))
    .split("\r\n")
    .map((line): [string, string] => {
      const colon = line.indexOf(":");
      return [line.slice(0, colon), line.slice(colon + 1).trim()];
    });
  if (end === -1) return { status: 500 };
  const status = headers.find(([name]) => name === "Status")?.[1] ?? "200";
  return {
    status: Number.parseInt(status, 10),
    headers: headers.filter(([name]) => name !== "Status"),
    body: output.subarray(end + 4),
  };
}

async function readBody(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts);
}

function killGroup(child: ChildProcess): void {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
  } catch {}
}
