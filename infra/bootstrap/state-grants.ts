import type { DeployGrant } from "./deploy-grants.ts";

const app = "concierge";

/** SST's fallback secrets, for stages without their own. Every deploy reads them. */
const fallback = "_fallback";

interface Around {
  of: (service: string, resource: string) => string;
  partition: string;
  stage: string;
}

/**
 * SST's own resources: a bucket for state, one for code, a repository for images, a few parameters. All stages of the
 * account share them, but not their content. SST keeps a stage's data under `<kind>/<app>/<stage>`, and its decryption key
 * in a parameter of the stage.
 */
export function stateGrants({ of, partition, stage }: Around): readonly DeployGrant[] {
  const bucket = (name: string) => `arn:${partition}:s3:::${name}`;
  const parameter = (name: string) => of("ssm", `parameter/sst/${name}`);
  return [
    {
      actions: [
        "s3:CreateBucket",
        "s3:ListBucket",
        "s3:GetBucketLocation",
        "s3:PutBucketVersioning",
        "s3:PutBucketPolicy",
        "s3:PutBucketPublicAccessBlock",
        "s3:PutBucketNotification",
        "s3:PutLifecycleConfiguration",
      ],
      on: [bucket("sst-state-*"), bucket("sst-asset-*")],
      why: "SST's buckets, one pair per region, with generated names. The first deploy creates them.",
    },
    {
      actions: [
        "s3:GetObject",
        "s3:PutObject",
        "s3:DeleteObject",
        "s3:GetObjectTagging",
        "s3:PutObjectTagging",
        "s3:DeleteObjectTagging",
      ],
      on: [bucket("sst-asset-*/*")],
      why: "Code is uploaded under a name with its hash, and tagged.",
    },
    {
      actions: ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"],
      on: [`${stage}.json`, `${stage}/*`, `${fallback}.json`].map((name) =>
        bucket(`sst-state-*/*/${app}/${name}`),
      ),
      why: "This stage's state, lock, secrets and history, in a bucket with a generated name.",
    },
    {
      actions: ["ssm:GetParameter", "ssm:GetParameters", "ssm:PutParameter", "ssm:DeleteParameter"],
      on: [
        parameter("bootstrap"),
        parameter("bootstrap/*"),
        parameter(`passphrase/${app}/${stage}`),
        parameter(`passphrase/${app}/${fallback}`),
      ],
      why: "The location of SST's buckets in any region, and the key of this stage's state.",
    },
    {
      actions: ["ecr:CreateRepository", "ecr:DescribeRepositories", "ecr:PutLifecyclePolicy"],
      on: [of("ecr", "repository/sst-asset")],
      why: "SST's repository, in any region.",
    },
  ];
}
