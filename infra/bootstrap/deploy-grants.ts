import type { Stack } from "aws-cdk-lib";
import { edgeGrants } from "./edge-grants.ts";
import { stateGrants } from "./state-grants.ts";

export interface DeployGrant {
  actions: readonly string[];
  on: readonly string[];
  when?: Record<string, Record<string, string | string[]>>;
  /** Why it needs a wildcard, if not because a name is not known yet. */
  why?: string;
}

interface Around {
  stack: Stack;
  stage: string;
  boundaryArn: string;
}

/**
 * What `sst deploy` and `sst remove` need for one stage. Nothing here reads items or messages: a deploy changes the
 * resources, not their data.
 */
export function deployGrants({ stack, stage, boundaryArn }: Around): Record<string, readonly DeployGrant[]> {
  const of = (service: string, resource: string) =>
    `arn:${stack.partition}:${service}:*:${stack.account}:${resource}`;
  const global = (service: string, resource: string) =>
    `arn:${stack.partition}:${service}::${stack.account}:${resource}`;
  const named = `concierge-${stage}-*`;
  const withBoundary = { StringEquals: { "iam:PermissionsBoundary": boundaryArn } };
  const functions = of("lambda", `function:${named}`);
  const roles = global("iam", `role/${named}`);

  return {
    state: stateGrants({ of, partition: stack.partition, stage }),
    data: [
      {
        actions: [
          "dynamodb:CreateTable",
          "dynamodb:UpdateTable",
          "dynamodb:DeleteTable",
          "dynamodb:DescribeTable",
          "dynamodb:DescribeTimeToLive",
          "dynamodb:UpdateTimeToLive",
          "dynamodb:DescribeContinuousBackups",
          "dynamodb:UpdateContinuousBackups",
          "dynamodb:TagResource",
          "dynamodb:UntagResource",
          "dynamodb:ListTagsOfResource",
        ],
        on: [of("dynamodb", `table/${named}`)],
      },
      {
        actions: [
          "sqs:CreateQueue",
          "sqs:DeleteQueue",
          "sqs:GetQueueUrl",
          "sqs:GetQueueAttributes",
          "sqs:SetQueueAttributes",
          "sqs:TagQueue",
          "sqs:UntagQueue",
          "sqs:ListQueueTags",
        ],
        on: [of("sqs", named)],
      },
      {
        actions: [
          "sns:CreateTopic",
          "sns:DeleteTopic",
          "sns:GetTopicAttributes",
          "sns:SetTopicAttributes",
          "sns:TagResource",
          "sns:UntagResource",
          "sns:ListTagsForResource",
        ],
        on: [of("sns", named)],
      },
    ],
    functions: [
      {
        actions: [
          "lambda:CreateFunction",
          "lambda:UpdateFunctionCode",
          "lambda:UpdateFunctionConfiguration",
          "lambda:DeleteFunction",
          "lambda:GetFunction",
          "lambda:GetFunctionConfiguration",
          "lambda:GetFunctionCodeSigningConfig",
          "lambda:ListVersionsByFunction",
          "lambda:PublishVersion",
          "lambda:AddPermission",
          "lambda:RemovePermission",
          "lambda:GetPolicy",
          "lambda:CreateFunctionUrlConfig",
          "lambda:UpdateFunctionUrlConfig",
          "lambda:DeleteFunctionUrlConfig",
          "lambda:GetFunctionUrlConfig",
          "lambda:PutFunctionConcurrency",
          "lambda:DeleteFunctionConcurrency",
          "lambda:GetFunctionConcurrency",
          "lambda:PutFunctionEventInvokeConfig",
          "lambda:UpdateFunctionEventInvokeConfig",
          "lambda:DeleteFunctionEventInvokeConfig",
          "lambda:GetFunctionEventInvokeConfig",
          "lambda:PutFunctionRecursionConfig",
          "lambda:GetFunctionRecursionConfig",
          "lambda:TagResource",
          "lambda:UntagResource",
          "lambda:ListTags",
        ],
        on: [functions],
      },
      {
        actions: [
          "lambda:CreateEventSourceMapping",
          "lambda:UpdateEventSourceMapping",
          "lambda:DeleteEventSourceMapping",
        ],
        on: ["*"],
        when: { StringLike: { "lambda:FunctionArn": functions } },
        why: "A mapping has no name before it is created. The condition limits it to this stage's functions.",
      },
      {
        actions: ["lambda:TagResource", "lambda:UntagResource"],
        on: [of("lambda", "event-source-mapping:*")],
        when: {
          StringEqualsIfExists: {
            "aws:RequestTag/sst:stage": stage,
            "aws:ResourceTag/sst:stage": stage,
          },
        },
        why: "AWS generates a mapping's id. SST tags each with its stage.",
      },
      {
        actions: ["lambda:GetEventSourceMapping", "lambda:ListTags", "logs:DescribeLogGroups"],
        on: ["*"],
        why: "Read-only, and AWS supports no narrower resource.",
      },
      {
        actions: [
          "logs:CreateLogGroup",
          "logs:DeleteLogGroup",
          "logs:PutRetentionPolicy",
          "logs:DeleteRetentionPolicy",
          "logs:TagResource",
          "logs:UntagResource",
          "logs:ListTagsForResource",
        ],
        on: [of("logs", `log-group:/aws/lambda/${named}`)],
      },
      {
        actions: [
          "scheduler:CreateSchedule",
          "scheduler:UpdateSchedule",
          "scheduler:DeleteSchedule",
          "scheduler:GetSchedule",
        ],
        on: [of("scheduler", `schedule/default/${named}`)],
      },
    ],
    identity: [
      {
        actions: [
          "iam:CreateRole",
          "iam:PutRolePermissionsBoundary",
          "iam:PutRolePolicy",
          "iam:DeleteRolePolicy",
          "iam:AttachRolePolicy",
          "iam:DetachRolePolicy",
        ],
        on: [roles],
        when: withBoundary,
      },
      {
        actions: [
          "iam:DeleteRole",
          "iam:GetRole",
          "iam:GetRolePolicy",
          "iam:ListRolePolicies",
          "iam:ListAttachedRolePolicies",
          "iam:ListInstanceProfilesForRole",
          "iam:UpdateAssumeRolePolicy",
          "iam:UpdateRole",
          "iam:UpdateRoleDescription",
          "iam:TagRole",
          "iam:UntagRole",
        ],
        on: [roles],
      },
      {
        actions: ["iam:PassRole"],
        on: [roles],
        when: {
          StringEquals: { "iam:PassedToService": ["lambda.amazonaws.com", "scheduler.amazonaws.com"] },
        },
      },
    ],
    watching: [
      {
        actions: [
          "cloudwatch:PutMetricAlarm",
          "cloudwatch:DeleteAlarms",
          "cloudwatch:TagResource",
          "cloudwatch:UntagResource",
          "cloudwatch:ListTagsForResource",
        ],
        on: [of("cloudwatch", `alarm:${named}`)],
      },
      {
        actions: ["cloudwatch:DescribeAlarms"],
        on: [of("cloudwatch", "alarm:*")],
        why: "Read-only, and AWS may require it on all alarms even for one.",
      },
      {
        actions: ["cloudwatch:PutDashboard", "cloudwatch:GetDashboard", "cloudwatch:DeleteDashboards"],
        on: [global("cloudwatch", `dashboard/${named}`)],
      },
    ],
    ...(stage === "production" && { edge: edgeGrants({ of, global, functions, named }) }),
  };
}

/** A deploy role cannot loosen its own limits or create another way in. */
export function forbidden({ stack }: Pick<Around, "stack">): readonly DeployGrant[] {
  const global = (resource: string) => `arn:${stack.partition}:iam::${stack.account}:${resource}`;
  return [
    {
      actions: [
        "iam:CreatePolicyVersion",
        "iam:DeletePolicy",
        "iam:DeletePolicyVersion",
        "iam:SetDefaultPolicyVersion",
      ],
      on: [global("policy/concierge-*-boundary"), global("policy/concierge-deploy-*")],
    },
    { actions: ["iam:DeleteRolePermissionsBoundary"], on: ["*"] },
    {
      actions: ["iam:*"],
      on: [global("role/concierge-deploy-*"), global("oidc-provider/*"), global("user/*")],
    },
  ];
}
