import { CfnOutput, Stack, type StackProps } from "aws-cdk-lib";
import { OidcProviderNative } from "aws-cdk-lib/aws-iam";
import type { Construct } from "constructs";
import { createAlarmKey } from "./alarm-key.ts";
import { createBoundary } from "./boundary.ts";
import { createBudget } from "./budget.ts";
import { createDeployRole } from "./deploy-role.ts";
import type { Settings } from "./settings.ts";

/** What must exist before the first `sst deploy` and is not managed by SST. */
export class BootstrapStack extends Stack {
  constructor(scope: Construct, id: string, { settings, ...props }: StackProps & { settings: Settings }) {
    super(scope, id, { description: "Who may deploy Concierge, and within which bounds.", ...props });
    const github = new OidcProviderNative(this, "GitHub", {
      oidcProviderName: "github",
      url: "https://token.actions.githubusercontent.com",
      clientIds: ["sts.amazonaws.com"],
    });
    for (const stage of settings.stages) {
      const boundary = createBoundary(this, stage);
      const role = createDeployRole(this, { stage, settings, github, boundary });
      new CfnOutput(this, `DeployRole-${stage}`, {
        value: role.roleArn,
        description: `AWS_DEPLOY_ROLE of GitHub's environment or repository, for stage ${stage}`,
      });
    }
    createBudget(this, settings.alertEmail);
    createAlarmKey(this);
  }
}
