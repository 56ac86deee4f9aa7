import "sst";

/** The resources of `infra/topology.ts`, as SST or the local stack puts them into the environment. */
declare module "sst" {
  export interface Resource {
    Table: { type: "sst.aws.Dynamo"; name: string };
    WorkQueue: { type: "sst.aws.Queue"; url: string };
    WebhookQueue: { type: "sst.aws.Queue"; url: string };
    TimerQueue: { type: "sst.aws.Queue"; url: string };
    AdminApiKey: { type: "sst.sst.Secret"; value: string };
    SealingKey: { type: "sst.sst.Secret"; value: string };
  }
}
