/** What differs from stage to stage, as plain data: no IaC import here. */
export interface Stage {
  /** Not removed by mistake: neither the stage, nor its table with it. */
  isProtected: boolean;
  /** The api is behind a router that limits rates, and is reached through it alone. */
  isFronted: boolean;
  /** Functions have the concurrency the topology reserves: a new account has too little to reserve any. */
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

/** As CONCIERGE_STAGE takes it: it is part of every sandbox's name. */
const stageName = /^[a-z0-9-]{1,20}$/;

/** Every stage but `production` is somebody's own: small, and gone when it is removed. */
export function stageOf(name: string): Stage {
  if (!stageName.test(name)) throw new Error(`"${name}" is no stage: a-z, 0-9 and -, 20 at the most`);
  return name === "production" ? production : dev;
}
