import { Stack } from "aws-cdk-lib";
import { Effect, ManagedPolicy, PolicyStatement } from "aws-cdk-lib/aws-iam";
import type { Construct } from "constructs";
import { acknowledgeWildcards } from "./nag.ts";

interface Allowed {
  actions: readonly string[];
  on: (stack: Stack, stage: string) => string[];
  why: string;
}

/** `infra/roles.ts` attaches it to every role of the stage. */
export function boundaryName(stage: string): string {
  return `concierge-${stage}-boundary`;
}

/**
 * The upper limit of every role's permissions: the stage's own tables, queues, functions and logs. A role with it cannot
 * create roles, read secrets, or use anything of another stage.
 */
const allowed: readonly Allowed[] = [
  {
    actions: [
      "dynamodb:GetItem",
      "dynamodb:PutItem",
      "dynamodb:UpdateItem",
      "dynamodb:DeleteItem",
      "dynamodb:Query",
      "dynamodb:BatchGetItem",
    ],
    on: (stack, stage) => [arn(stack, "dynamodb", `table/concierge-${stage}-*`)],
    why: "SST adds random letters to a table's name, and indexes are below it.",
  },
  {
    actions: ["sqs:SendMessage", "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"],
    on: (stack, stage) => [arn(stack, "sqs", `concierge-${stage}-*`)],
    why: "SST adds random letters to a queue's name.",
  },
  {
    actions: ["logs:CreateLogStream", "logs:PutLogEvents"],
    on: (stack, stage) => [arn(stack, "logs", `log-group:/aws/lambda/concierge-${stage}-*`)],
    why: "One log group per function and stage, with streams named by Lambda.",
  },
  {
    actions: ["lambda:InvokeFunction"],
    on: (stack, stage) => [arn(stack, "lambda", `function:concierge-${stage}-*`)],
    why: "The schedule invokes the reaper. SST adds random letters to its name.",
  },
];

export function createBoundary(scope: Construct, stage: string): ManagedPolicy {
  const stack = Stack.of(scope);
  const boundary = new ManagedPolicy(scope, `Boundary-${stage}`, {
    managedPolicyName: boundaryName(stage),
    description: `The most that any role of Concierge's stage ${stage} may do.`,
    statements: allowed.map(
      ({ actions, on }) =>
        new PolicyStatement({ effect: Effect.ALLOW, actions: [...actions], resources: on(stack, stage) }),
    ),
  });
  for (const { on, why } of allowed) acknowledgeWildcards(boundary, on(stack, stage), why);
  return boundary;
}

/** In any region, because a boundary belongs to the account. */
function arn(stack: Stack, service: string, resource: string): string {
  return `arn:${stack.partition}:${service}:*:${stack.account}:${resource}`;
}
