import type { Stack } from "aws-cdk-lib";

export interface DeployGrant {
  actions: readonly string[];
  on: readonly string[];
  when?: Record<string, Record<string, string | string[]>>;
  /** Why a wildcard in it can not be helped, where it is another reason than a name that is not known yet. */
  why?: string;
}

interface Around {
  stack: Stack;
  stage: string;
  boundaryArn: string;
}

/**
 * What `sst deploy` and `sst remove` do to one stage. Nothing here reads an item or a message: who deploys changes
 * what the application is made of, not what is in it.
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
  const { partition } = stack;

  return {
    state: [
      {
        actions: [
          "s3:CreateBucket",
          "s3:ListBucket",
          "s3:GetBucketLocation",
          "s3:PutBucketVersioning",
          "s3:PutBucketPublicAccessBlock",
          "s3:PutBucketNotification",
          "s3:PutLifecycleConfiguration",
          "s3:GetObject",
          "s3:PutObject",
          "s3:DeleteObject",
        ],
        on: ["sst-state-*", "sst-asset-*"].flatMap((bucket) => [
          `arn:${partition}:s3:::${bucket}`,
          `arn:${partition}:s3:::${bucket}/*`,
        ]),
        why: "SST's own buckets, one for each region, with a name of SST's choice.",
      },
      {
        actions: ["ssm:GetParameter", "ssm:GetParameters", "ssm:PutParameter", "ssm:DeleteParameter"],
        on: [of("ssm", "parameter/sst/*")],
        why: "SST keeps where its state is, and what encrypts it, below /sst.",
      },
      {
        actions: ["ecr:CreateRepository", "ecr:DescribeRepositories", "ecr:PutLifecyclePolicy"],
        on: [of("ecr", "repository/sst-asset")],
        why: "SST's own repository, in whichever region the application is.",
      },
    ],
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
        why: "A mapping has no name before it is made; the condition holds it to this stage's functions.",
      },
      {
        actions: ["lambda:GetEventSourceMapping", "lambda:ListTags", "logs:DescribeLogGroups"],
        on: ["*"],
        why: "These look, and AWS takes no narrower resource for them.",
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
          "cloudwatch:DescribeAlarms",
          "cloudwatch:TagResource",
          "cloudwatch:UntagResource",
          "cloudwatch:ListTagsForResource",
        ],
        on: [of("cloudwatch", `alarm:${named}`)],
      },
      {
        actions: ["cloudwatch:PutDashboard", "cloudwatch:GetDashboard", "cloudwatch:DeleteDashboards"],
        on: [global("cloudwatch", `dashboard/${named}`)],
      },
    ],
    ...(stage === "production" && { edge: edgeGrants({ of, global, functions, named }) }),
  };
}

/** CloudFront's own, which have ids of AWS's choice in place of names: production alone has any. */
function edgeGrants(a: {
  of: (service: string, resource: string) => string;
  global: (service: string, resource: string) => string;
  functions: string;
  named: string;
}): readonly DeployGrant[] {
  const kinds = [
    "distribution",
    "function",
    "key-value-store",
    "origin-access-control",
    "cache-policy",
    "origin-request-policy",
    "response-headers-policy",
  ];
  return [
    {
      actions: [
        ...["Create", "Update", "Delete", "Get"].map((verb) => `cloudfront:${verb}Distribution`),
        ...["Create", "Update", "Delete", "Describe", "Publish", "Get"].map(
          (verb) => `cloudfront:${verb}Function`,
        ),
        ...["Create", "Update", "Delete", "Describe"].map((verb) => `cloudfront:${verb}KeyValueStore`),
        ...["Create", "Update", "Delete", "Get"].map((verb) => `cloudfront:${verb}OriginAccessControl`),
        ...["Create", "Update", "Delete", "Get"].map((verb) => `cloudfront:${verb}CachePolicy`),
        "cloudfront:CreateInvalidation",
        "cloudfront:TagResource",
        "cloudfront:UntagResource",
        "cloudfront:ListTagsForResource",
      ],
      on: kinds.map((kind) => a.global("cloudfront", `${kind}/*`)),
      why: "CloudFront's ids are AWS's choice; the account's other distributions belong in another account.",
    },
    {
      actions: [
        ...["DescribeKeyValueStore", "ListKeys", "GetKey", "PutKey", "DeleteKey", "UpdateKeys"].map(
          (verb) => `cloudfront-keyvaluestore:${verb}`,
        ),
      ],
      on: [a.global("cloudfront", "key-value-store/*")],
      why: "The router's routes are in a store whose id is AWS's choice.",
    },
    {
      actions: ["lambda:EnableReplication*", "lambda:GetFunction", "lambda:DisableReplication*"],
      on: [a.functions, `${a.functions}:*`],
      why: "CloudFront asks for these three, by these names, to take this stage's signing function to its edges.",
    },
    {
      actions: ["iam:CreateServiceLinkedRole"],
      on: [a.global("iam", "role/aws-service-role/replicator.lambda.amazonaws.com/*")],
      when: { StringEquals: { "iam:AWSServiceName": "replicator.lambda.amazonaws.com" } },
      why: "Lambda makes the role that takes the signing function to the edges, once, by a name of AWS's.",
    },
    {
      actions: [
        "wafv2:CreateWebACL",
        "wafv2:UpdateWebACL",
        "wafv2:DeleteWebACL",
        "wafv2:GetWebACL",
        "wafv2:TagResource",
        "wafv2:UntagResource",
        "wafv2:ListTagsForResource",
      ],
      on: [a.of("wafv2", `global/webacl/${a.named}/*`)],
    },
  ];
}

/** Whoever deploys can not loosen what binds him, nor get himself another way in. */
export function forbidden({ stack, boundaryArn }: Around): readonly DeployGrant[] {
  const global = (resource: string) => `arn:${stack.partition}:iam::${stack.account}:${resource}`;
  return [
    {
      actions: [
        "iam:CreatePolicyVersion",
        "iam:DeletePolicy",
        "iam:DeletePolicyVersion",
        "iam:SetDefaultPolicyVersion",
      ],
      on: [boundaryArn, global("policy/concierge-deploy-*")],
    },
    { actions: ["iam:DeleteRolePermissionsBoundary"], on: ["*"] },
    {
      actions: ["iam:*"],
      on: [global("role/concierge-deploy-*"), global("oidc-provider/*"), global("user/*")],
    },
  ];
}
