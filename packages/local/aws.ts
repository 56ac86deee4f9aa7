/** The account the embedded engines play: they check neither signature nor credentials. */
export const REGION = "us-east-1";
export const ACCOUNT_ID = "000000000000";
export const APP = { name: "concierge", stage: "dev" };

export const credentials = { accessKeyId: "local", secretAccessKey: "local" };

export function physicalName(resource: string): string {
  return `${APP.name}-${APP.stage}-${resource}`;
}

export function arn(service: string, resource: string): string {
  return `arn:aws:${service}:${REGION}:${ACCOUNT_ID}:${resource}`;
}

/** What the engines are reached by; functions get the same as variables of the SDK. */
export function clientConfig(endpoint: string) {
  return { endpoint, region: REGION, credentials };
}
