import { Stack } from "aws-cdk-lib";
import { Effect, ManagedPolicy, PolicyStatement } from "aws-cdk-lib/aws-iam";
import type { Construct } from "constructs";
import { acknowledgeWildcards } from "./nag.ts";

/** `infra/roles.ts` attaches it to every role. */
export const boundaryName = "concierge-boundary";

/**
 * The upper limit of every role's permissions: the application's own tables, queues, functions and logs. A role with it
 * cannot create roles, read secrets, or use anything outside the application.
 */
const allowed: readonly { actions: readonly string[]; on: (stack: Stack) => string[]; why: string }[] = [
  {
    actions: [
      "dynamodb:GetItem",
      "dynamodb:PutItem",
      "dynamodb:UpdateItem",
      "dynamodb:DeleteItem",
      "dynamodb:Query",
      "dynamodb:BatchGetItem",
    ],
    on: (stack) => [arn(stack, "dynamodb", "table/concierge-*")],
    why: "SST adds random letters to a table's name, and indexes are below it.",
  },
  {
    actions: ["sqs:SendMessage", "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"],
    on: (stack) => [arn(stack, "sqs", "concierge-*")],
    why: "SST adds random letters to a queue's name.",
  },
  {
    actions: ["logs:CreateLogStream", "logs:PutLogEvents"],
    on: (stack) => [arn(stack, "logs", "log-group:/aws/lambda/concierge-*")],
    why: "One log group per function and stage, with streams named by Lambda.",
  },
  {
    actions: ["lambda:InvokeFunction"],
    on: (stack) => [arn(stack, "lambda", "function:concierge-*")],
    why: "The schedule invokes the reaper. SST adds random letters to its name.",
  },
];

export function createBoundary(scope: Construct): ManagedPolicy {
  const stack = Stack.of(scope);
  const boundary = new ManagedPolicy(scope, "Boundary", {
    managedPolicyName: boundaryName,
    description: "The most that any role of Concierge may do.",
    statements: allowed.map(
      ({ actions, on }) =>
        new PolicyStatement({ effect: Effect.ALLOW, actions: [...actions], resources: on(stack) }),
    ),
  });
  for (const { on, why } of allowed) acknowledgeWildcards(boundary, on(stack), why);
  return boundary;
}

/** In any region, because a boundary belongs to the account. */
function arn(stack: Stack, service: string, resource: string): string {
  return `arn:${stack.partition}:${service}:*:${stack.account}:${resource}`;
}
