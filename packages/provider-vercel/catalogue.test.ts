import { type Provider, ProviderError } from "@concierge/core";
import { describe, expect, it } from "vitest";
import { readTable } from "./testing/table.ts";
import {
  aLaunch,
  aLaunchToSweep,
  always,
  aName,
  aRunDir,
  aSandbox,
  aSnapshot,
  aStopped,
  command,
  letterOf,
  open,
  serveVercel,
  tags,
  timeoutMs,
} from "./testing/vercel.ts";

serveVercel();

/**
 * The fault catalogue: every operation of the provider, through the real SDK, with every fault of the service. A row is
 * an operation and the API route that fails; a column is the fault.
 *
 *   ok  the operation succeeds      R  refused      H  throttled (busy)      T  transient
 *   G   gone                        S  stopped      =x it succeeds and returns x instead
 *   -   the route does not stream
 *
 *   404p  a 404 page of a proxy                    410   with the code sandbox_stopped
 *   stpd stpg snap pend othr  422 with the code sandbox_stopped, sandbox_stopping, sandbox_snapshotting,
 *                             sandbox_pending, or another
 *   rset  the connection is closed before the operation      hang  no answer until the time is over
 *   cut   the answer ends early, as if it were complete      brk   the connection breaks in the middle of the answer
 *   line  an error line in the stream: internal_error        lstp  an error line in the stream: sandbox_stopped
 *   lost  the operation succeeds and its answer is lost once
 *
 * The sandbox runs in every case, so no operation in a session may report gone or stopped.
 */
const expected = readTable(`
                             400 401 402 403 404 404p 409 410 stpd stpg snap pend othr 429 500 503 rset cut brk line lstp lost hang
  create/createSandbox       R   R   R   R   R   T    R   R   R    T    T    T    R    H   T   T   T    T   T   -    -    ok   T
  fork/createSandbox         R   R   R   R   T   T    R   T   T    T    T    T    R    H   T   T   T    T   T   -    -    ok   T
  probe/getSandbox           R   R   R   R   =gone T  R   T   T    T    T    T    R    H   T   T   T    T   T   -    -    ok   T
  resume/getSandbox          R   R   R   R   G   T    R   T   T    T    T    T    R    H   T   T   T    T   T   -    -    ok   T
  snapshot/createSnapshot    R   R   R   R   T   T    R   T   T    T    T    T    R    H   T   T   T    T   T   -    -    S    T
  unsnap/getSnapshot         R   R   R   R   ok  T    R   T   T    T    T    T    R    H   T   T   T    T   T   -    -    ok   T
  unsnap/deleteSnapshot      R   R   R   R   ok  T    R   T   T    T    T    T    R    H   T   T   T    T   T   -    -    ok   T
  exec/runCommand            R   R   R   R   T   T    R   T   T    T    T    T    R    H   T   T   T    T   T   -    -    ok   T
  exec/getCommand            R   R   R   R   T   T    R   T   T    T    T    T    R    H   T   T   T    T   T   -    -    ok   T
  exec/getLogs               R   R   R   R   T   T    R   T   T    T    T    T    R    H   T   T   T    =short T T   T    ok   T
  overdue/killCommand        R   R   R   R   T   T    R   T   T    T    T    T    R    H   T   T   T    ok  ok  -    -    ok   T
  write/writeFiles           R   R   R   R   T   T    R   T   T    T    T    T    R    H   T   T   T    T   T   -    -    ok   T
  guard/updateNetworkPolicy  R   R   R   R   T   T    R   T   T    T    T    T    R    H   T   T   T    T   T   -    -    ok   T
  launch/runCommand          R   R   R   R   T   T    R   T   T    T    T    T    R    H   T   T   T    T   T   -    -    ok   T
  sweep/runCommand           R   R   R   R   T   T    R   T   T    T    T    T    R    H   T   T   T    T   T   T    T    ok   T
  sweep/getCommand           R   R   R   R   =alive T R   T   T    T    T    T    R    H   T   T   T    T   T   -    -    ok   T
  sweep/getLogs              R   R   R   R   T   T    R   T   T    T    T    T    R    H   T   T   T    T   T   T    T    ok   T
  sweep/killCommand          ok  ok  ok  ok  ok  ok   ok  ok  ok   ok   ok   ok   ok   ok  ok  ok  ok   ok  ok  -    -    ok   ok
  ask/getCommand             R   R   R   R   =unknown T R T   T    T    T    T    R    H   T   T   T    T   T   -    -    ok   T
  ask/readFile               R   R   R   R   =stateless =stateless R T T T  T    T    R    H   T   T   T    =stateless T - -   ok   T
  list/listSandboxes         R   R   R   R   R   T    R   R   R    T    T    T    R    H   T   T   T    T   T   -    -    ok   T
  extend/extendTimeout       R   R   R   R   T   T    R   T   T    T    T    T    R    H   T   T   T    T   T   -    -    ok   T
  remove/getSandbox          R   R   R   R   ok  T    R   T   T    T    T    T    R    H   T   T   T    T   T   -    -    ok   T
  remove/deleteSandbox       R   R   R   R   T   T    R   T   T    T    T    T    R    H   T   T   T    T   T   -    -    ok   T
`);

const retryAfterSeconds = 30;
/** The budget when a call hangs: less than every call's own limit, and enough for calls that do not hang. */
const leftMs = 2_500;

const status = (code: number, more: object = {}) => ({
  count: always,
  effect: { type: "status", status: code, ...more },
});
const faults: Record<string, { count: number; effect: object }> = {
  400: status(400),
  401: status(401),
  402: status(402),
  403: status(403),
  404: status(404, { code: "not_found" }),
  "404p": status(404, { page: "<html>Not found</html>" }),
  409: status(409),
  410: status(410, { code: "sandbox_stopped" }),
  stpd: status(422, { code: "sandbox_stopped" }),
  stpg: status(422, { code: "sandbox_stopping" }),
  snap: status(422, { code: "sandbox_snapshotting" }),
  pend: status(422, { code: "sandbox_pending" }),
  othr: status(422, { code: "unprocessable" }),
  // Longer than the SDK waits.
  429: status(429, { headers: { "retry-after": String(retryAfterSeconds) } }),
  500: status(500),
  503: status(503),
  rset: { count: always, effect: { type: "drop" } },
  cut: { count: always, effect: { type: "cut" } },
  brk: { count: always, effect: { type: "cut", how: "break" } },
  line: { count: always, effect: { type: "errorLine", code: "internal_error" } },
  lstp: { count: always, effect: { type: "errorLine", code: "sandbox_stopped" } },
  lost: { count: 1, effect: { type: "commitLate", drop: true } },
  hang: { count: always, effect: { type: "hang" } },
};
/** With these faults the operation has its effect, so its sandbox cannot be used again. */
const haveEffect: ReadonlySet<string> = new Set(["cut", "brk", "line", "lstp", "lost"]);

interface Operation<T> {
  prepare(): Promise<T>;
  /** What `run` returns without a fault. */
  returns?: string;
  run(provider: Provider, prepared: T): Promise<unknown>;
  /** Cells run one after the other, because they would disturb each other. */
  isSequential?: boolean;
}
const operation = <T>(given: Operation<T>) => given as Operation<unknown>;

const operations: Record<string, Operation<unknown>> = {
  create: operation({
    prepare: async () => {},
    run: (provider) => provider.create({ name: aName(), tags, timeoutMs }),
  }),
  fork: operation({
    prepare: aSnapshot,
    run: (provider, { snapshotId }) => provider.create({ name: aName(), tags, timeoutMs, snapshotId }),
  }),
  probe: operation({
    prepare: aSandbox,
    returns: "healthy",
    run: async (provider, { name }) => (await provider.probe(name)).health,
  }),
  resume: operation({ prepare: aStopped, run: (provider, { name }) => provider.resume(name) }),
  snapshot: operation({
    prepare: aSandbox,
    run: (provider, sandbox) => provider.snapshot(sandbox, timeoutMs),
  }),
  unsnap: operation({
    prepare: aSnapshot,
    run: (provider, { snapshotId }) => provider.deleteSnapshot(snapshotId),
  }),
  exec: operation({
    prepare: aSandbox,
    returns: "0 said",
    async run(provider, sandbox) {
      const { exitCode, stdout } = await provider.exec(sandbox, command);
      return stdout === "" ? "short" : `${exitCode} ${stdout.trim()}`;
    },
  }),
  overdue: operation({
    prepare: aSandbox,
    returns: "null",
    async run(provider, sandbox) {
      const sleeps = { ...command, cmd: "sleep", args: ["1000"], timeoutMs: 100 };
      return String((await provider.exec(sandbox, sleeps)).exitCode);
    },
  }),
  write: operation({
    prepare: aSandbox,
    run: (provider, sandbox) => provider.writeFiles(sandbox, [{ path: "/tmp/x", content: "x" }]),
  }),
  guard: operation({
    prepare: aSandbox,
    returns: "guarded",
    run: (provider, sandbox) => provider.guardNetwork(sandbox, { allow: ["api.example"], inject: [] }),
  }),
  launch: operation({
    prepare: aSandbox,
    run: (provider, sandbox) => provider.launch(sandbox, aRunDir(), {}),
  }),
  sweep: operation({
    prepare: aLaunchToSweep,
    returns: "clean",
    isSequential: true,
    run: (provider, { sandbox, runDir, commandId }) => provider.sweep(sandbox, runDir, { commandId }),
  }),
  ask: operation({
    prepare: aLaunch,
    returns: "running",
    async run(provider, { sandbox, runDir, commandId }) {
      const { launch, state } = await provider.ask(sandbox, runDir, commandId);
      return state ? launch : "stateless";
    },
  }),
  list: operation({ prepare: aSandbox, run: (provider) => provider.list({ stage: tags.stage }) }),
  extend: operation({ prepare: aSandbox, run: (provider, sandbox) => provider.extend(sandbox, 1000) }),
  remove: operation({ prepare: aSandbox, run: (provider, { name }) => provider.remove(name) }),
};
const hasStarted: ReadonlySet<string> = new Set(["exec/getCommand", "exec/getLogs", "overdue/killCommand"]);

/** Fills one cell of the table. */
async function cell(row: string, column: string, { run, returns }: Operation<unknown>, prepared: unknown) {
  const route = row.split("/")[1];
  const startedAt = performance.now();
  const isHang = column === "hang";
  const { provider, fault } = open(isHang ? () => leftMs : undefined);
  const chunks = row === "sweep/runCommand" ? 1 : 0;
  const { count, effect } = faults[column] ?? expect.fail(`no fault ${column}`);
  await fault({ route, count, effect: { chunks, ...effect } });
  try {
    const returned = await run(provider, prepared);
    return returns === undefined || returned === returns ? "ok" : `=${String(returned)}`;
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error;
    expect(error.hasBegun, `${row} ${column} has begun`).toBe(hasStarted.has(row));
    if (error.kind === "throttled") expect(error.retryAfterMs).toBe(retryAfterSeconds * 1000);
    if (isHang) expect(performance.now() - startedAt).toBeLessThan(3 * leftMs);
    return letterOf(error);
  }
}

describe("the fault catalogue", { timeout: 60_000 }, () => {
  it.concurrent.each(Object.keys(expected))("%s", async (row) => {
    const given = operations[row.split("/")[0] ?? ""] ?? expect.fail(`no operation ${row}`);
    const columns = Object.entries(expected[row] ?? {}).filter(([, expectation]) => expectation !== "-");
    const shared = given.prepare();
    const found: Record<string, string> = {};
    const fill = async (column: string) => {
      const isFresh = haveEffect.has(column) && !given.isSequential;
      found[column] = await cell(row, column, given, isFresh ? await given.prepare() : await shared);
    };
    if (given.isSequential) for (const [column] of columns) await fill(column);
    else await Promise.all(columns.map(([column]) => fill(column)));
    expect(found).toEqual(Object.fromEntries(columns));
  });
});
