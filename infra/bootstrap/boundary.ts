import { Stack } from "aws-cdk-lib";
import { Effect, ManagedPolicy, PolicyStatement } from "aws-cdk-lib/aws-iam";
import type { Construct } from "constructs";
import { acknowledgeWildcards } from "./nag.ts";

/** `infra/roles.ts` puts it on every role of the program. */
export const boundaryName = "concierge-boundary";

/**
 * The most that any role of the application may ever do, whatever its own policy says: use the application's own
 * tables, queues, functions and logs. No role made with it can make another, read a secret or leave the application.
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
    why: "The name of a table ends in letters of SST's choice; its indexes are below it.",
  },
  {
    actions: ["sqs:SendMessage", "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"],
    on: (stack) => [arn(stack, "sqs", "concierge-*")],
    why: "The name of a queue ends in letters of SST's choice.",
  },
  {
    actions: ["logs:CreateLogStream", "logs:PutLogEvents"],
    on: (stack) => [arn(stack, "logs", "log-group:/aws/lambda/concierge-*")],
    why: "A log group for each function and stage, and streams that Lambda names.",
  },
  {
    actions: ["lambda:InvokeFunction"],
    on: (stack) => [arn(stack, "lambda", "function:concierge-*")],
    why: "The schedule invokes the reaper, whose name ends in letters of SST's choice.",
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

/** In whichever region the application is: a boundary is the account's. */
function arn(stack: Stack, service: string, resource: string): string {
  return `arn:${stack.partition}:${service}:*:${stack.account}:${resource}`;
}
