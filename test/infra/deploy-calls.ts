/**
 * What the providers call on AWS when `sst deploy` creates, reads, changes and deletes a resource, tags included: SST
 * tags every resource on creation. By resource type; a type that is missing here fails the test.
 */
import { account, arn, region } from "./mocks.ts";
import type { Resource } from "./program.ts";
import { arnOf, nameOf, type Program, read } from "./resources.ts";

export interface Call {
  action: string;
  on: string;
  /** Other context of the request. */
  context?: Record<string, string | string[]>;
}

type CallsOf = (resource: Resource, program: Program) => Call[];

/**
 * AWS accepts no resource for these, so they cannot be limited to a stage; each creates or reads something nameless.
 */
export const stageless: readonly RegExp[] = [
  /^cloudfront(-keyvaluestore)?:/,
  /^logs:DescribeLogGroups$/,
  /^cloudwatch:DescribeAlarms$/,
  /^lambda:(GetEventSourceMapping|ListTags)$/,
  /^s3:ListBucket$/,
];

export const callsOf: Readonly<Record<string, CallsOf>> = {
  "aws:cloudwatch/logGroup:LogGroup": (group) => [
    ...each("logs", arnOf(group), [
      ...["CreateLogGroup", "PutRetentionPolicy", "DeleteRetentionPolicy", "DeleteLogGroup"],
      ...["TagResource", "UntagResource", "ListTagsForResource"],
    ]),
    { action: "logs:DescribeLogGroups", on: "*" },
  ],
  "aws:sns/topic:Topic": (topic) =>
    each("sns", arnOf(topic), [
      ...["CreateTopic", "SetTopicAttributes", "GetTopicAttributes", "DeleteTopic"],
      ...["TagResource", "UntagResource", "ListTagsForResource"],
    ]),
  "aws:dynamodb/table:Table": (table) =>
    each("dynamodb", arnOf(table), [
      ...["CreateTable", "UpdateTable", "DescribeTable", "DeleteTable"],
      ...["UpdateTimeToLive", "DescribeTimeToLive", "UpdateContinuousBackups", "DescribeContinuousBackups"],
      ...["TagResource", "UntagResource", "ListTagsOfResource"],
    ]),
  "aws:sqs/queue:Queue": (queue) =>
    each("sqs", arnOf(queue), [
      ...["CreateQueue", "SetQueueAttributes", "GetQueueAttributes", "GetQueueUrl", "DeleteQueue"],
      ...["TagQueue", "UntagQueue", "ListQueueTags"],
    ]),
  "aws:iam/role:Role": (role) => [
    ...each(
      "iam",
      arnOf(role),
      [
        ...["CreateRole", "PutRolePermissionsBoundary", "PutRolePolicy", "DeleteRolePolicy"],
        ...["AttachRolePolicy", "DetachRolePolicy"],
      ],
      { "iam:PermissionsBoundary": String(read(role, "permissionsBoundary")) },
    ),
    ...each("iam", arnOf(role), [
      ...["GetRole", "GetRolePolicy", "ListRolePolicies", "ListAttachedRolePolicies"],
      ...["UpdateRole", "UpdateRoleDescription", "UpdateAssumeRolePolicy", "TagRole", "UntagRole"],
      ...["ListInstanceProfilesForRole", "DeleteRole"],
    ]),
  ],
  "aws:s3/bucketObjectv2:BucketObjectv2": (object) => {
    const bucket = `arn:aws:s3:::${read(object, "bucket")}-abcdefghijkl`;
    return [
      ...each("s3", `${bucket}/${read(object, "key")}`, [
        ...["PutObject", "GetObject", "DeleteObject"],
        ...["PutObjectTagging", "GetObjectTagging", "DeleteObjectTagging"],
      ]),
      { action: "s3:ListBucket", on: bucket },
    ];
  },
  "aws:lambda/function:Function": (fn) => [
    ...each("lambda", arnOf(fn), [
      ...["CreateFunction", "UpdateFunctionCode", "UpdateFunctionConfiguration", "DeleteFunction"],
      ...["GetFunction", "GetFunctionConfiguration", "GetFunctionCodeSigningConfig"],
      ...["ListVersionsByFunction", "PublishVersion"],
      ...["PutFunctionConcurrency", "GetFunctionConcurrency", "DeleteFunctionConcurrency"],
      ...["TagResource", "UntagResource", "ListTags"],
    ]),
    {
      action: "iam:PassRole",
      on: String(read(fn, "role")),
      context: { "iam:PassedToService": "lambda.amazonaws.com" },
    },
  ],
  "aws:lambda/permission:Permission": (permission) =>
    each("lambda", functionArn(permission, "function"), ["AddPermission", "GetPolicy", "RemovePermission"]),
  "aws:lambda/functionUrl:FunctionUrl": (url) =>
    each("lambda", functionArn(url, "functionName"), [
      ...["CreateFunctionUrlConfig", "GetFunctionUrlConfig", "UpdateFunctionUrlConfig"],
      ...["DeleteFunctionUrlConfig", "AddPermission", "RemovePermission"],
    ]),
  "aws:lambda/functionRecursionConfig:FunctionRecursionConfig": (config) =>
    each("lambda", functionArn(config, "functionName"), [
      "PutFunctionRecursionConfig",
      "GetFunctionRecursionConfig",
    ]),
  "aws:lambda/functionEventInvokeConfig:FunctionEventInvokeConfig": (config) =>
    each("lambda", functionArn(config, "functionName"), [
      ...["PutFunctionEventInvokeConfig", "UpdateFunctionEventInvokeConfig"],
      ...["GetFunctionEventInvokeConfig", "DeleteFunctionEventInvokeConfig"],
    ]),
  "aws:lambda/eventSourceMapping:EventSourceMapping": (mapping, { stage }) => {
    const own = arn("lambda", "event-source-mapping:0a1b2c3d-0000-4000-8000-000000000000");
    const about = { "lambda:FunctionArn": String(read(mapping, "functionName")) };
    const tagged = { "aws:ResourceTag/sst:app": "concierge", "aws:ResourceTag/sst:stage": stage };
    const tags = { "aws:TagKeys": ["sst:app", "sst:stage"], "aws:RequestTag/sst:app": "concierge" };
    return [
      { action: "lambda:CreateEventSourceMapping", on: "*", context: about },
      {
        action: "lambda:TagResource",
        on: own,
        context: { ...tags, "aws:RequestTag/sst:stage": stage },
      },
      ...each("lambda", own, ["UpdateEventSourceMapping", "DeleteEventSourceMapping"], about),
      ...each("lambda", own, ["GetEventSourceMapping", "ListTags"]),
      ...each("lambda", own, ["TagResource", "UntagResource"], { ...tagged, "aws:TagKeys": ["team"] }),
    ];
  },
  "aws:cloudwatch/metricAlarm:MetricAlarm": (alarm) =>
    each("cloudwatch", arn("cloudwatch", `alarm:${nameOf(alarm)}`), [
      ...["PutMetricAlarm", "DescribeAlarms", "DeleteAlarms"],
      ...["TagResource", "UntagResource", "ListTagsForResource"],
    ]),
  "aws:cloudwatch/dashboard:Dashboard": (dashboard) =>
    each("cloudwatch", `arn:aws:cloudwatch::${account}:dashboard/${read(dashboard, "dashboardName")}`, [
      ...["PutDashboard", "GetDashboard", "DeleteDashboards"],
    ]),
  "aws:scheduler/schedule:Schedule": (schedule) => [
    ...each("scheduler", arn("scheduler", `schedule/default/${nameOf(schedule)}`), [
      ...["CreateSchedule", "GetSchedule", "UpdateSchedule", "DeleteSchedule"],
    ]),
    {
      action: "iam:PassRole",
      on: String(read(schedule, "target.roleArn")),
      context: { "iam:PassedToService": "scheduler.amazonaws.com" },
    },
  ],
  "aws:wafv2/webAcl:WebAcl": (acl) =>
    each("wafv2", `arn:aws:wafv2:us-east-1:${account}:global/webacl/${nameOf(acl)}/0a1b`, [
      ...["CreateWebACL", "GetWebACL", "UpdateWebACL", "DeleteWebACL"],
      ...["TagResource", "UntagResource", "ListTagsForResource"],
    ]),
  "aws:cloudfront/keyValueStore:KeyValueStore": () => [
    { action: "cloudfront:CreateKeyValueStore", on: "*" },
    ...each("cloudfront", ofCloudFront("key-value-store"), [
      ...["DescribeKeyValueStore", "UpdateKeyValueStore", "DeleteKeyValueStore"],
    ]),
  ],
  "aws:cloudfront/cachePolicy:CachePolicy": () => [
    { action: "cloudfront:CreateCachePolicy", on: "*" },
    ...each("cloudfront", ofCloudFront("cache-policy"), [
      ...["GetCachePolicy", "UpdateCachePolicy", "DeleteCachePolicy"],
    ]),
  ],
  "aws:cloudfront/function:Function": () => [
    { action: "cloudfront:CreateFunction", on: "*" },
    ...each("cloudfront", ofCloudFront("function"), [
      ...["DescribeFunction", "GetFunction", "UpdateFunction", "PublishFunction", "DeleteFunction"],
      ...["TagResource", "ListTagsForResource"],
    ]),
  ],
  "aws:cloudfront/distribution:Distribution": (distribution, { stage }) => {
    const signing = arn("lambda", `function:concierge-${stage}-RouterEdgeFn-abcdefgh:1`);
    const linked = `arn:aws:iam::${account}:role/aws-service-role/replicator.lambda.amazonaws.com/AWSServiceRoleForLambdaReplicator`;
    return [
      { action: "cloudfront:CreateDistribution", on: "*" },
      ...each("cloudfront", arnOf(distribution), [
        ...["GetDistribution", "UpdateDistribution", "DeleteDistribution", "CreateInvalidation"],
        ...["TagResource", "UntagResource", "ListTagsForResource"],
      ]),
      ...each("lambda", signing, ["GetFunction", "EnableReplication", "DisableReplication"]),
      {
        action: "iam:CreateServiceLinkedRole",
        on: linked,
        context: { "iam:AWSServiceName": "replicator.lambda.amazonaws.com" },
      },
    ];
  },
  "dynamic KvKeys": () => keyValueCalls,
  "dynamic KvRoutesUpdate": () => keyValueCalls,
  "dynamic DistributionDeploymentWaiter": () => [
    { action: "cloudfront:GetDistribution", on: ofCloudFront("distribution") },
  ],
};

/** These consist of other resources, or are nothing on AWS. */
const ofNoAccount = /^(sst:|pulumi:|random:)/;

/** The resource's name in `callsOf`. SST's own providers share one type and say what they do in their name. */
export function kindOf({ type, name }: Resource): string | undefined {
  if (ofNoAccount.test(type)) return undefined;
  return type === "pulumi-nodejs:dynamic:Resource" ? `dynamic ${name.split(".").at(-1)}` : type;
}

const [state, asset] = ["arn:aws:s3:::sst-state-abcdefghijkl", "arn:aws:s3:::sst-asset-abcdefghijkl"];
const parameter = (name: string) => arn("ssm", `parameter/sst/${name}`);

/** What SST itself does before and after each deploy. */
export function callsOfSst(stage: string): Call[] {
  const data = ["app", "lock", "secret"].map((kind) => `${state}/${kind}/concierge/${stage}.json`);
  const history = ["history", "snapshot", "summary", "update", "eventlog"].map(
    (kind) => `${state}/${kind}/concierge/${stage}/0a1b2c.json`,
  );
  return [
    ...each("s3", state, ["ListBucket"], { "s3:prefix": `history/concierge/${stage}/` }),
    ...[...data, ...history].flatMap((object) =>
      each("s3", object, ["GetObject", "PutObject", "DeleteObject"]),
    ),
    ...each("s3", `${asset}/concierge/${stage}/assets/Api-code-0a1b2c.zip`, ["GetObject", "PutObject"]),
    ...each("ssm", parameter(`passphrase/concierge/${stage}`), ["GetParameter", "PutParameter"]),
    ...["bootstrap", "bootstrap/asset"].flatMap((name) => each("ssm", parameter(name), ["GetParameter"])),
  ];
}

/** What would reach every stage of the account. An administrator does it once, and no deploy role may. */
export const accountCalls: readonly Call[] = [
  ...[state, asset].flatMap((bucket) =>
    each("s3", bucket, [
      ...["CreateBucket", "DeleteBucket", "PutBucketPolicy", "PutBucketVersioning", "PutBucketNotification"],
      ...["PutLifecycleConfiguration", "PutBucketPublicAccessBlock"],
    ]),
  ),
  ...each("s3", state, ["ListBucket"]),
  ...each("s3", `${asset}/assets/Api-code-0a1b2c.zip`, ["PutObject", "DeleteObject"]),
  ...each("s3", `${state}/secret/concierge/_fallback.json`, ["PutObject", "DeleteObject"]),
  ...["bootstrap", "bootstrap/asset", "passphrase/concierge/_fallback"].flatMap((name) =>
    each("ssm", parameter(name), ["PutParameter", "DeleteParameter"]),
  ),
];

/** What decrypts a stage's secrets and state: only its own deploys may read it. */
export function privateToSst(stage: string): Call[] {
  return callsOfSst(stage).filter(({ on }) => on.includes(`concierge/${stage}`));
}

const keyValueCalls = each("cloudfront-keyvaluestore", ofCloudFront("key-value-store"), [
  ...["DescribeKeyValueStore", "ListKeys", "GetKey", "PutKey", "DeleteKey", "UpdateKeys"],
]);

function each(
  service: string,
  on: string,
  verbs: readonly string[],
  context?: Record<string, string | string[]>,
): Call[] {
  return verbs.map((verb) => ({ action: `${service}:${verb}`, on, ...(context && { context }) }));
}

function functionArn(resource: Resource, input: string): string {
  const name = String(read(resource, input));
  return name.startsWith("arn:") ? name : `arn:aws:lambda:${region}:${account}:function:${name}`;
}

/** CloudFront chooses the id. */
function ofCloudFront(kind: string): string {
  return `arn:aws:cloudfront::${account}:${kind}/E0123456789ABC`;
}
