/**
 * Stands in for IAM: a function may do what its grants list, the host everything, any other caller nothing. Callers are
 * identified by their access key id, which is random and known only to them.
 */
import { randomBytes } from "node:crypto";
import { appendOnly, type Grant, type Topology } from "../../../infra/topology.ts";
import { accountId, arn, type Credentials, physicalName } from "../stack/aws.ts";

export interface Principal {
  name: string;
  /** Actions by resource ARN. The host may do all. */
  allowed: Readonly<Record<string, readonly string[]>> | "all";
}

/** By access key id. */
export type Principals = Readonly<Record<string, Principal>>;

export interface Call {
  action: string;
  resource: string;
}

export type Verdict =
  | { allowed: true; principal: string; call?: Call }
  | { allowed: false; type: "UnrecognizedClientException" | "AccessDeniedException"; message: string };

/** Creates keys for each function and for the host. */
export function createPrincipals(topology: Topology) {
  const host = newCredentials();
  const functions = Object.keys(topology.functions).map((name) => [name, newCredentials()] as const);
  const entries = functions.map(([name, { accessKeyId }]): [string, Principal] => [
    accessKeyId,
    { name, allowed: allowedBy(topology.functions[name]?.grants ?? [], topology) },
  ]);
  const principals: Principals = {
    ...Object.fromEntries(entries),
    [host.accessKeyId]: { name: "the host", allowed: "all" },
  };
  return { principals, host, functions: Object.fromEntries(functions) };
}

/** `target` is the `x-amz-target` header, for example `DynamoDB_20120810.GetItem`. */
export function authorize(
  principals: Principals,
  accessKeyId: string,
  target: string,
  body: Readonly<Record<string, unknown>>,
): Verdict {
  const principal = Object.hasOwn(principals, accessKeyId) ? principals[accessKeyId] : undefined;
  if (!principal) {
    const message = "The security token included in the request is invalid.";
    return { allowed: false, type: "UnrecognizedClientException", message };
  }
  const { name, allowed } = principal;
  if (allowed === "all") return { allowed: true, principal: name };
  const call = readCall(target, body);
  if (allowed[call.resource]?.includes(call.action) && !isDenied(call, body))
    return { allowed: true, principal: name, call };
  const user = arn("sts", `assumed-role/${physicalName(name)}`, "");
  const message = `User: ${user} is not authorized to perform: ${call.action} on resource: ${call.resource} because no identity-based policy allows the ${call.action} action`;
  return { allowed: false, type: "AccessDeniedException", message };
}

/** Entries that may be added but not changed, even with a grant on the table. */
function isDenied({ action, resource }: Call, { Key }: Readonly<Record<string, unknown>>): boolean {
  if (resource !== arn("dynamodb", `table/${physicalName(appendOnly.table)}`)) return false;
  const partition = String((Key as { pk?: { S?: string } } | undefined)?.pk?.S);
  const denied: readonly string[] = appendOnly.actions;
  return denied.includes(action) && partition.startsWith(appendOnly.partitions.replace(/\*$/, ""));
}

/** Operations on one table or index. No function is granted any other. */
const onOneTable = ["GetItem", "PutItem", "UpdateItem", "DeleteItem", "Query", "Scan", "DescribeTable"];

function readCall(target: string, body: Readonly<Record<string, unknown>>): Call {
  const [service = "", operation = ""] = target.split(".");
  if (service.startsWith("DynamoDB_")) {
    const index = typeof body.IndexName === "string" ? `/index/${body.IndexName}` : "";
    const table = onOneTable.includes(operation) ? body.TableName : onlyTable(body.RequestItems);
    const resource = table === undefined ? "*" : arn("dynamodb", `table/${table}${index}`);
    return { action: `dynamodb:${operation}`, resource };
  }
  const queue = typeof body.QueueUrl === "string" ? body.QueueUrl.split("/").at(-1) : undefined;
  // SendMessageBatch needs the permission for SendMessage.
  return { action: `sqs:${operation.replace(/Batch$/, "")}`, resource: queue ? arn("sqs", queue) : "*" };
}

/** BatchGetItem names a table per item. Undefined if there are several tables. */
function onlyTable(requestItems: unknown): string | undefined {
  const [table, ...others] = Object.keys(requestItems ?? {});
  return others.length === 0 ? table : undefined;
}

function allowedBy(grants: readonly Grant[], topology: Topology): Record<string, string[]> {
  const byResource: Record<string, string[]> = {};
  for (const { on, actions } of grants) {
    const [name = "", ...rest] = on.split("/");
    const path = [physicalName(name), ...rest].join("/");
    const resource = name in topology.table ? arn("dynamodb", `table/${path}`) : arn("sqs", path);
    byResource[resource] = [...(byResource[resource] ?? []), ...actions];
  }
  return byResource;
}

function newCredentials(): Credentials {
  return {
    accessKeyId: `LOCAL${randomBytes(10).toString("hex").toUpperCase()}`,
    secretAccessKey: accountId,
  };
}
