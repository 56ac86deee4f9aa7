import { type AttributeValue, type DynamoDBClient, GetItemCommand } from "@aws-sdk/client-dynamodb";
import { reportEnd } from "@concierge/core/task/end";
import { takeBeat, takeOutput } from "@concierge/core/task/output";
import { start } from "@concierge/core/task/start";
import { handleWork } from "@concierge/core/work";
import { physicalName } from "@concierge/dev";
import { topology } from "../../infra/topology.ts";
import type { Benchmark, Figure } from "./harness.ts";
import { composeDeps, startEngine } from "./verbs.ts";

type Attributes = Record<string, AttributeValue>;
type Projection = "all" | readonly string[];

const minute = 60_000;
const promptBytes = 10 * 1024;
const turnMs = 20 * minute;
/** As the runner does: a beat every two seconds, sometimes output. */
const beatMs = 2_000;
const sayEveryMs = 2 * minute;

/**
 * Write units of one turn whose agent mostly waits for its model, as DynamoDB bills them: the item by its whole size,
 * and each index whose projected attributes changed. The baseline is a model of the earlier design: the prompt in the
 * item, both indexes projecting everything, and every beat written.
 */
export const units: Benchmark = {
  name: "units",
  about: "write units of a turn of 20 minutes that mostly waits for its model",
  async run() {
    const value = await writeUnits({});
    const baseline = { what: "all in the item and its indexes", value: await writeUnits({ isNaive: true }) };
    const what = "write units of a turn, 20 min, 10 KB prompt";
    const target = { of: "ratio", atMost: 0.2, firm: true } as const;
    return [{ what, unit: "units", value, baseline, target } satisfies Figure];
  },
};

async function writeUnits({ isNaive = false }: { isNaive?: boolean }): Promise<number> {
  await using engine = await startEngine();
  let now = Date.parse("2026-11-01T12:00:00Z");
  const clock = { now: () => now, sleep: async () => {} };
  const deps = composeDeps(engine.client, undefined, { AGENT_MAX_WAIT_TIME_MS: String(turnMs * 2) }, clock);
  const prompt = "x".repeat(promptBytes);
  let billed = 0;
  bill(engine.client, isNaive ? promptBytes : 0, isNaive, (by) => {
    billed += by;
  });

  const { id } = await start(deps, "bench", { prompt });
  const turn = { taskId: id, turn: 1 };
  await handleWork(deps, { kind: "provision", ...turn });
  let seq = 0;
  for (let at = beatMs; at <= turnMs; at += beatMs) {
    now += beatMs;
    if (at % sayEveryMs === 0) {
      seq += 1;
      const chunks = [{ stream: "stdout" as const, at: now, data: Buffer.from("still at it\n") }];
      await takeOutput(deps, turn, { seq, chunks });
    } else if (isNaive) {
      await deps.store.changeTask(id, { turn: 1, status: ["running"] }, { set: { lastActivityAt: now } });
    } else await takeBeat(deps, turn, "model");
  }
  const end = { exitCode: 0, signal: null, reason: "exited", outputCutBytes: 0, text: "" } as const;
  await reportEnd(deps, turn, { ...end, lastSeq: seq });
  await handleWork(deps, { kind: "ended", ...turn });
  return billed;
}

interface WriteInput {
  Key?: Attributes;
  Item?: Attributes;
}

/** Adds up the cost of each write from the item before and after it. */
function bill(
  client: DynamoDBClient,
  extraBytes: number,
  isNaive: boolean,
  add: (units: number) => void,
): void {
  const TableName = physicalName("Table");
  const read = async (Key: Attributes) =>
    (await client.send(new GetItemCommand({ TableName, Key, ConsistentRead: true }))).Item;
  client.middlewareStack.add(
    (next, { commandName = "" }) =>
      async (request) => {
        if (!/(Put|Update|Delete)Item/.test(commandName)) return await next(request);
        const { Key, Item = {} } = request.input as WriteInput;
        const { pk, sk } = Key ?? Item;
        if (!pk || !sk) throw new Error(`${commandName} has no key`);
        const before = await read({ pk, sk });
        const answer = await next(request);
        const after = await read({ pk, sk });
        const extra = sk.S === "TASK" ? extraBytes : 0;
        add(Math.max(unitsOf(before, extra), unitsOf(after, extra)));
        for (const { hash, range, projection } of Object.values(topology.table.Table.indexes)) {
          const names: Projection = isNaive ? "all" : ["pk", "sk", hash, range, ...projection];
          add(indexUnits(project(before, hash, names), project(after, hash, names), range, extra));
        }
        return answer;
      },
    { step: "initialize" },
  );
}

/** Zero if the index sees no difference; twice if the entry moves. */
function indexUnits(
  before: Attributes | undefined,
  after: Attributes | undefined,
  range: string,
  extra: number,
): number {
  if (JSON.stringify(before) === JSON.stringify(after)) return 0;
  const size = Math.max(unitsOf(before, extra), unitsOf(after, extra));
  const moves = before && after && JSON.stringify(before[range]) !== JSON.stringify(after[range]);
  return moves ? 2 * size : size;
}

function project(item: Attributes | undefined, hash: string, names: Projection): Attributes | undefined {
  if (item?.[hash] === undefined) return undefined;
  const kept = Object.entries(item).filter(([name]) => names === "all" || names.includes(name));
  return Object.fromEntries(kept);
}

function unitsOf(item: Attributes | undefined, extra: number): number {
  return item ? Math.ceil((JSON.stringify(item).length + extra) / 1024) : 0;
}
