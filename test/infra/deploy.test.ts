import { runSimulation } from "@cloud-copilot/iam-simulate";
import { describe, expect, it, vi } from "vitest";
import { policiesOf, resolved, synthesize } from "./bootstrap.ts";
import {
  accountCalls,
  type Call,
  callsOf,
  callsOfSst,
  kindOf,
  privateToSst,
  stageless,
} from "./deploy-calls.ts";
import { account } from "./mocks.ts";
import { render } from "./render.ts";
import type { Program } from "./resources.ts";

// Each program is a bundle and a process, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const template = synthesize();
const policies: Record<string, object> = Object.fromEntries(
  ["dev", "production"].map((stage) => [
    stage,
    { Version: "2012-10-17", Statement: resolved(policiesOf(template, stage)) },
  ]),
);
const programs: Record<string, Program> = {
  dev: await render("dev"),
  production: await render("production"),
};

/** As IAM decides. A case that the simulator cannot evaluate is an error, not a denial. */
async function isAllowed(stage: string, { action, on, context = {} }: Call): Promise<boolean> {
  const answer = await runSimulation(
    {
      request: {
        principal: `arn:aws:iam::${account}:role/concierge-deploy-${stage}`,
        action,
        resource: { resource: on, accountId: account },
        contextVariables: context,
      },
      identityPolicies: [{ name: stage, policy: policies[stage] }],
      serviceControlPolicies: [],
      resourceControlPolicies: [],
    },
    {},
  );
  if (answer.resultType === "error") throw new Error(`${action} on ${on}: ${JSON.stringify(answer.errors)}`);
  return answer.overallResult === "Allowed";
}

/** One line for each call with an unexpected verdict. */
async function misjudged(stage: string, calls: readonly Call[], wanted: boolean): Promise<string[]> {
  const lines = await Promise.all(
    calls.map(async (call) =>
      (await isAllowed(stage, call)) === wanted ? [] : [`${call.action} on ${call.on}`],
    ),
  );
  return [...new Set(lines.flat())];
}

function callsFor(program: Program, kind?: string): Call[] {
  return program.resources
    .filter((resource) => kindOf(resource) !== undefined && (!kind || kindOf(resource) === kind))
    .flatMap((resource) => callsOf[kindOf(resource) ?? ""]?.(resource, program) ?? []);
}

const kinds = (program: Program) => [...new Set(program.resources.flatMap((one) => kindOf(one) ?? []))];

describe.each(["dev", "production"])("the %s deploy role", (stage) => {
  const program = programs[stage] as Program;
  const other = stage === "dev" ? "production" : "dev";

  it("deploys only resource types whose actions are known", () => {
    expect(kinds(program).filter((kind) => !(kind in callsOf))).toEqual([]);
  });

  it.each(kinds(program))("can create, read, change and delete %s", async (kind) => {
    const calls = callsFor(program, kind);
    expect(calls).not.toEqual([]);
    expect(await misjudged(stage, calls, true)).toEqual([]);
  });

  it("lets SST upload code and keep its state", async () => {
    expect(await misjudged(stage, callsOfSst(stage), true)).toEqual([]);
  });

  it(`can touch nothing of ${other}`, async () => {
    const calls = callsFor(programs[other] as Program).filter(
      ({ action }) => !stageless.some((pattern) => pattern.test(action)),
    );
    expect(calls.length).toBeGreaterThan(200);
    expect(await misjudged(stage, calls, false)).toEqual([]);
  });

  it(`can read neither ${other}'s state nor its decryption keys`, async () => {
    const calls = privateToSst(other);
    expect(calls.length).toBeGreaterThan(20);
    expect(await misjudged(stage, calls, false)).toEqual([]);
  });

  it("cannot administer what all stages of the account share", async () => {
    expect(await misjudged(stage, accountCalls, false)).toEqual([]);
  });

  it("cannot create a role with the other stage's boundary", async () => {
    const role = `arn:aws:iam::${account}:role/concierge-${stage}-ApiRole`;
    const boundary = (of: string) => ({
      "iam:PermissionsBoundary": `arn:aws:iam::${account}:policy/concierge-${of}-boundary`,
    });
    const create = { action: "iam:CreateRole", on: role };
    expect(await misjudged(stage, [{ ...create, context: boundary(other) }], false)).toEqual([]);
    expect(await misjudged(stage, [{ ...create, context: boundary(stage) }], true)).toEqual([]);
  });

  it("cannot create a role without the boundary, or pass one to another service", async () => {
    const role = `arn:aws:iam::${account}:role/concierge-${stage}-ApiRole`;
    const calls: Call[] = [
      { action: "iam:CreateRole", on: role },
      { action: "iam:PutRolePolicy", on: role },
      { action: "iam:PassRole", on: role, context: { "iam:PassedToService": "ec2.amazonaws.com" } },
      { action: "iam:DeleteRolePermissionsBoundary", on: role },
    ];
    expect(await misjudged(stage, calls, false)).toEqual([]);
  });
});

it("dev has no edge, and may create none", async () => {
  const calls = ["Distribution", "Function", "KeyValueStore", "CachePolicy"].map((kind) => ({
    action: `cloudfront:Create${kind}`,
    on: "*",
  }));
  expect(await misjudged("dev", calls, false)).toEqual([]);
});
