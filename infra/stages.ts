/** The differences between stages, as plain data without IaC imports. */
export interface Stage {
  /** Protects the stage and its table from removal by mistake. */
  isProtected: boolean;
  /** The api is reached only through CloudFront with a rate limit. */
  isFronted: boolean;
  /** Reserves the topology's concurrency. New accounts have too little to reserve any. */
  reservesConcurrency: boolean;
  logRetentionDays: number;
}

const production: Stage = {
  isProtected: true,
  isFronted: true,
  reservesConcurrency: true,
  logRetentionDays: 90,
};

const dev: Stage = {
  isProtected: false,
  isFronted: false,
  reservesConcurrency: false,
  logRetentionDays: 7,
};

/** The format of CONCIERGE_STAGE, which is part of every sandbox's name. */
const stageName = /^[a-z0-9-]{1,20}$/;

/** Every stage except `production` is a developer's: small, and completely removed by `sst remove`. */
export function stageOf(name: string): Stage {
  if (!stageName.test(name)) throw new Error(`"${name}" is not a valid stage: at most 20 of a-z, 0-9 and -`);
  return name === "production" ? production : dev;
}
