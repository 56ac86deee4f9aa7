import { Stack } from "aws-cdk-lib";
import { PolicyStatement, ServicePrincipal } from "aws-cdk-lib/aws-iam";
import { Key } from "aws-cdk-lib/aws-kms";
import type { Construct } from "constructs";

/**
 * Encrypts the alarm topics of the stages. CloudWatch cannot use AWS's managed key for topics. With a key in the bootstrap
 * stack, the deploy role needs no permissions on keys.
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
      // A key policy can only refer to its own key.
      resources: ["*"],
      conditions: { StringEquals: { "aws:SourceAccount": Stack.of(scope).account } },
    }),
  );
  return key;
}
