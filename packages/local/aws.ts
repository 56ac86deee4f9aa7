/** The account the embedded engines play: they look at who calls (`access.ts`), not at signatures. */
export const REGION = "us-east-1";
export const ACCOUNT_ID = "000000000000";
export const APP = { name: "concierge", stage: "dev" };

export interface Credentials {
  accessKeyId: string;
  secretAccessKey: string;
}

/** For an engine that lets anyone in. */
const anyone: Credentials = { accessKeyId: "local", secretAccessKey: "local" };

export function physicalName(resource: string): string {
  return `${APP.name}-${APP.stage}-${resource}`;
}

export function arn(service: string, resource: string, region = REGION): string {
  return `arn:aws:${service}:${region}:${ACCOUNT_ID}:${resource}`;
}

/** What the engines are reached by; functions get the same as variables of the SDK. */
export function clientConfig(endpoint: string, credentials: Credentials = anyone) {
  return { endpoint, region: REGION, credentials };
}
