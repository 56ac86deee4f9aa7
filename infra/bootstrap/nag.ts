import { Stack, Validations } from "aws-cdk-lib";
import type { Construct } from "constructs";

/** Acknowledges wildcards with a reason, each finding separately, so that new ones are reported. */
export function acknowledgeWildcards(construct: Construct, names: readonly string[], reason: string): void {
  const stack = Stack.of(construct);
  for (const name of names.filter((text) => text.includes("*"))) {
    const shown = asShown(stack, name);
    const kind = /^[a-z0-9-]+:[A-Za-z*]+$/.test(shown) ? "Action" : "Resource";
    Validations.of(construct).acknowledge({ id: `AwsSolutions-IAM5[${kind}::${shown}]`, reason });
  }
}

/** The resource as cdk-nag prints it, with unresolved values in angle brackets. */
function asShown(stack: Stack, name: string): string {
  return name
    .replaceAll(stack.partition, "<AWS::Partition>")
    .replaceAll(stack.account, "<AWS::AccountId>")
    .replaceAll(stack.region, "<AWS::Region>");
}
