/** The AWS account of the embedded engines. They check the caller (`iam/access.ts`), not signatures. */
export const awsRegion = "us-east-1";
export const accountId = "000000000000";
export const app = { name: "concierge", stage: "dev" };

export interface Credentials {
  accessKeyId: string;
  secretAccessKey: string;
}

/** For an engine without access control. */
const anyCredentials: Credentials = { accessKeyId: "local", secretAccessKey: "local" };

export function physicalName(resource: string): string {
  return `${app.name}-${app.stage}-${resource}`;
}

export function arn(service: string, resource: string, region = awsRegion): string {
  return `arn:aws:${service}:${region}:${accountId}:${resource}`;
}

export function clientConfig(endpoint: string, credentials: Credentials = anyCredentials) {
  return { endpoint, region: awsRegion, credentials };
}
