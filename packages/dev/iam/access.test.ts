import { describe, expect, test } from "vitest";
import { fixtureTopology, http } from "../testing/topology.ts";
import { authorize, createPrincipals } from "./access.ts";

const grants = [
  { on: "Table", actions: ["dynamodb:GetItem", "dynamodb:Query"] },
  { on: "Table/index/owner", actions: ["dynamodb:Query"] },
  { on: "Jobs", actions: ["sqs:SendMessage"] },
];
const { principals, host, functions } = createPrincipals(
  fixtureTopology({ Api: { ...http, grants }, Idle: { ...http, grants: [] } }),
);
const table = "concierge-dev-Table";
const jobs = "http://127.0.0.1:4566/000000000000/concierge-dev-Jobs";
const other = "http://127.0.0.1:4566/000000000000/concierge-dev-Other";

function call(name: string, target: string, body: Record<string, unknown>) {
  return authorize(principals, functions[name]?.accessKeyId ?? "", target, body);
}

describe("a function", () => {
  test.each([
    ["DynamoDB_20120810.GetItem", { TableName: table }],
    ["DynamoDB_20120810.Query", { TableName: table }],
    ["DynamoDB_20120810.Query", { TableName: table, IndexName: "owner" }],
    ["AmazonSQS.SendMessage", { QueueUrl: jobs }],
    ["AmazonSQS.SendMessageBatch", { QueueUrl: jobs }],
  ])("may do what it is granted: %s %j", (target, body) => {
    expect(call("Api", target, body)).toMatchObject({ allowed: true, principal: "Api" });
  });

  test.each([
    ["DynamoDB_20120810.PutItem", { TableName: table }],
    ["DynamoDB_20120810.GetItem", { TableName: "another" }],
    ["DynamoDB_20120810.Scan", { TableName: table }],
    ["DynamoDB_20120810.Query", { TableName: table, IndexName: "due" }],
    ["DynamoDB_20120810.GetItem", { TableName: table, IndexName: "owner" }],
    ["DynamoDB_20120810.BatchGetItem", { RequestItems: { [table]: {} } }],
    ["DynamoDB_20120810.BatchGetItem", { RequestItems: { [table]: {} }, TableName: table }],
    ["DynamoDB_20120810.TransactGetItems", { TransactItems: [] }],
    ["DynamoDB_20120810.ListTables", {}],
    ["AmazonSQS.ReceiveMessage", { QueueUrl: jobs }],
    ["AmazonSQS.SendMessage", { QueueUrl: other }],
    ["AmazonSQS.ListQueues", {}],
    ["", {}],
  ])("may not do what it is not granted: %s %j", (target, body) => {
    expect(call("Api", target, body)).toMatchObject({ allowed: false, type: "AccessDeniedException" });
    expect(call("Idle", target, body)).toMatchObject({ allowed: false, type: "AccessDeniedException" });
  });

  test("gets an error that names the action and the resource", () => {
    expect(call("Api", "DynamoDB_20120810.Query", { TableName: table, IndexName: "due" })).toEqual({
      allowed: false,
      type: "AccessDeniedException",
      message:
        "User: arn:aws:sts::000000000000:assumed-role/concierge-dev-Api is not authorized to perform: " +
        "dynamodb:Query on resource: arn:aws:dynamodb:us-east-1:000000000000:table/concierge-dev-Table/index/due " +
        "because no identity-based policy allows the dynamodb:Query action",
    });
  });
});

test("the host may do everything, an unknown caller nothing", () => {
  const target = "DynamoDB_20120810.CreateTable";
  expect(authorize(principals, host.accessKeyId, target, {})).toMatchObject({ allowed: true });
  for (const accessKeyId of ["local", "Api", "", "__proto__"]) {
    expect(authorize(principals, accessKeyId, target, {})).toMatchObject({
      allowed: false,
      type: "UnrecognizedClientException",
    });
  }
});

test("an entry of the audit log can be added, but not changed or deleted", () => {
  const actions = ["dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"];
  const all = createPrincipals(fixtureTopology({ Api: { ...http, grants: [{ on: "Table", actions }] } }));
  const may = (operation: string, pk: string) =>
    authorize(all.principals, all.functions.Api?.accessKeyId ?? "", `DynamoDB_20120810.${operation}`, {
      TableName: table,
      Key: { pk: { S: pk } },
    }).allowed;
  expect(["PutItem", "UpdateItem", "DeleteItem"].map((one) => may(one, "AUDIT#2026-11-01"))).toEqual([
    true,
    false,
    false,
  ]);
  expect(["UpdateItem", "DeleteItem"].map((one) => may(one, "TASK#1"))).toEqual([true, true]);
});
