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
 * SST's own resources: a bucket for state, one for code, a few parameters. All stages of the account share them, so a
 * deploy role never administers them: a bucket policy or a changed `bootstrap` parameter would reach another stage. An
 * administrator's first `sst secret set` creates them. SST keeps a stage's state under `<kind>/<app>/<stage>` and its
 * decryption key in a parameter of the stage; `infra/assets.ts` does the same for code.
 */
export function stateGrants({ of, partition, stage }: Around): readonly DeployGrant[] {
  const bucket = (name: string) => `arn:${partition}:s3:::${name}`;
  const parameter = (name: string) => of("ssm", `parameter/sst/${name}`);
  return [
    {
      actions: ["s3:GetBucketLocation"],
      on: [bucket("sst-state-*"), bucket("sst-asset-*")],
      why: "SST's buckets, one pair per region, with generated names.",
    },
    {
      actions: ["s3:ListBucket"],
      on: [bucket("sst-asset-*")],
      why: "Read-only: without it S3 answers 403 for a missing object instead of 404. The names are hashes.",
    },
    {
      actions: ["s3:ListBucket"],
      on: [bucket("sst-state-*")],
      when: {
        StringLike: { "s3:prefix": [`*/${app}/${stage}`, `*/${app}/${stage}/*`, `*/${app}/${stage}.json`] },
      },
      why: "SST lists a stage's history, in a bucket with a generated name.",
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
      on: [bucket(`sst-asset-*/${app}/${stage}/*`)],
      why: "This stage's code, under a name with its hash, in a bucket with a generated name.",
    },
    {
      actions: ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"],
      on: [`${stage}.json`, `${stage}/*`].map((name) => bucket(`sst-state-*/*/${app}/${name}`)),
      why: "This stage's state, lock, secrets and history, in a bucket with a generated name.",
    },
    {
      actions: ["s3:GetObject"],
      on: [bucket(`sst-state-*/*/${app}/${fallback}.json`)],
      why: "The fallback secrets, in a bucket with a generated name.",
    },
    {
      actions: ["ssm:GetParameter", "ssm:GetParameters", "ssm:PutParameter", "ssm:DeleteParameter"],
      on: [parameter(`passphrase/${app}/${stage}`)],
      why: "The key of this stage's state, in any region.",
    },
    {
      actions: ["ssm:GetParameter", "ssm:GetParameters"],
      on: [parameter("bootstrap"), parameter("bootstrap/*"), parameter(`passphrase/${app}/${fallback}`)],
      why: "The location of SST's buckets and the key of the fallback secrets, in any region.",
    },
  ];
}
