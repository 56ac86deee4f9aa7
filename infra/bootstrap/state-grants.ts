import type { DeployGrant } from "./deploy-grants.ts";

const app = "concierge";

/** Where SST keeps secrets that are for every stage that has none of its own. Each deploy looks there. */
const fallback = "_fallback";

interface Around {
  of: (service: string, resource: string) => string;
  partition: string;
  stage: string;
}

/**
 * SST's own: a bucket for state and one for code, a repository for images, a few parameters. They are shared by all
 * stages of the account; what is in them is not. SST keeps a stage's data below `<kind>/<app>/<stage>`, and what
 * decrypts it in a parameter of the stage's own.
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
      why: "SST's own buckets, one pair for each region, with a name of SST's choice. The first deploy makes them.",
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
      why: "Code is uploaded under a name that has its hash in it, and tagged as it is made.",
    },
    {
      actions: ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"],
      on: [`${stage}.json`, `${stage}/*`, `${fallback}.json`].map((name) =>
        bucket(`sst-state-*/*/${app}/${name}`),
      ),
      why: "This stage's state, lock, secrets and history, in a bucket with a name of SST's choice.",
    },
    {
      actions: ["ssm:GetParameter", "ssm:GetParameters", "ssm:PutParameter", "ssm:DeleteParameter"],
      on: [
        parameter("bootstrap"),
        parameter("bootstrap/*"),
        parameter(`passphrase/${app}/${stage}`),
        parameter(`passphrase/${app}/${fallback}`),
      ],
      why: "Where SST's buckets are, in whichever region; and what decrypts this stage's state.",
    },
    {
      actions: ["ecr:CreateRepository", "ecr:DescribeRepositories", "ecr:PutLifecyclePolicy"],
      on: [of("ecr", "repository/sst-asset")],
      why: "SST's own repository, in whichever region the application is.",
    },
  ];
}
