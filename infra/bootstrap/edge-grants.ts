import type { DeployGrant } from "./deploy-grants.ts";

/** CloudFront's own, which have ids of AWS's choice in place of names: production alone has any. */
export function edgeGrants(a: {
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
      actions: ["Distribution", "Function", "KeyValueStore", "OriginAccessControl", "CachePolicy"].map(
        (kind) => `cloudfront:Create${kind}`,
      ),
      on: ["*"],
      why: "What is created has no id yet: AWS takes no narrower resource for these.",
    },
    {
      actions: [
        ...["Update", "Delete", "Get"].map((verb) => `cloudfront:${verb}Distribution`),
        ...["Update", "Delete", "Describe", "Publish", "Get"].map((verb) => `cloudfront:${verb}Function`),
        ...["Update", "Delete", "Describe"].map((verb) => `cloudfront:${verb}KeyValueStore`),
        ...["Update", "Delete", "Get"].map((verb) => `cloudfront:${verb}OriginAccessControl`),
        ...["Update", "Delete", "Get"].map((verb) => `cloudfront:${verb}CachePolicy`),
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
