import { Stack } from "aws-cdk-lib";
import { PolicyStatement, ServicePrincipal } from "aws-cdk-lib/aws-iam";
import { Key } from "aws-cdk-lib/aws-kms";
import type { Construct } from "constructs";

/**
 * What the stages' alarm topics are encrypted with. CloudWatch may not use AWS's own key for topics; and who deploys
 * needs no say over keys this way.
 */
export function createAlarmKey(scope: Construct): Key {
  const key = new Key(scope, "AlarmKey", {
    alias: "alias/concierge-alarms",
    description: "Topics that Concierge's alarms are told to",
    enableKeyRotation: true,
  });
  key.addToResourcePolicy(
    new PolicyStatement({
      principals: [new ServicePrincipal("cloudwatch.amazonaws.com")],
      actions: ["kms:Decrypt", "kms:GenerateDataKey*"],
      // This key: a key's policy can name no other.
      resources: ["*"],
      conditions: { StringEquals: { "aws:SourceAccount": Stack.of(scope).account } },
    }),
  );
  return key;
}
