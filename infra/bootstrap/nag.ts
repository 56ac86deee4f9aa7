import { Stack, Validations } from "aws-cdk-lib";
import type { Construct } from "constructs";

/** Says why these resources, or actions, have a wildcard in them: each finding by itself, so that a new one shows. */
export function acknowledgeWildcards(construct: Construct, names: readonly string[], reason: string): void {
  const stack = Stack.of(construct);
  for (const name of names.filter((text) => text.includes("*"))) {
    const shown = asShown(stack, name);
    const kind = /^[a-z0-9-]+:[A-Za-z*]+$/.test(shown) ? "Action" : "Resource";
    Validations.of(construct).acknowledge({ id: `AwsSolutions-IAM5[${kind}::${shown}]`, reason });
  }
}

/** As cdk-nag shows it: what is only known in the account, in angle brackets. */
function asShown(stack: Stack, name: string): string {
  return name
    .replaceAll(stack.partition, "<AWS::Partition>")
    .replaceAll(stack.account, "<AWS::AccountId>")
    .replaceAll(stack.region, "<AWS::Region>");
}
