/** The bootstrap stack as CloudFormation, without an account. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { App, type Stack, Validations } from "aws-cdk-lib";
import { Template } from "aws-cdk-lib/assertions";
import { AwsSolutionsChecks } from "cdk-nag";
import { readSettings } from "../../infra/bootstrap/settings.ts";
import { BootstrapStack } from "../../infra/bootstrap/stack.ts";
import { account } from "./mocks.ts";

export const context = { repository: "acme/concierge", alertEmail: "ops@example.com" };

/** Throws if cdk-nag finds anything. */
export function synthesize(change: (stack: Stack) => void = () => {}, given: object = context): Template {
  process.env.CDK_DISABLE_STACK_TRACE = "1";
  const outdir = mkdtempSync(join(tmpdir(), "concierge-bootstrap-"));
  try {
    const app = new App({ outdir, context: { ...given, "aws:cdk:bundling-stacks": [] } });
    const stack = new BootstrapStack(app, "Bootstrap", { settings: readSettings(app) });
    change(stack);
    Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
    return Template.fromStack(stack);
  } finally {
    rmSync(outdir, { recursive: true });
  }
}

export interface Statement {
  Effect: "Allow" | "Deny";
  Action: string | string[];
  Resource: unknown;
  Condition?: unknown;
}

/** A managed policy's statements, with account-specific values by name. */
export function statementsOf(template: Template, policyName: string): Statement[] {
  const found = Object.values(
    template.findResources("AWS::IAM::ManagedPolicy", { Properties: { ManagedPolicyName: policyName } }),
  );
  if (found.length !== 1) throw new Error(`there are ${found.length} policies called ${policyName}`);
  return found[0]?.Properties.PolicyDocument.Statement;
}

/** Everything the deploy role of a stage is allowed and denied. */
export function policiesOf(template: Template, stage: string): Statement[] {
  const all = Object.values(template.findResources("AWS::IAM::ManagedPolicy"));
  return all
    .filter(({ Properties }) => Properties.ManagedPolicyName.startsWith(`concierge-deploy-${stage}-`))
    .flatMap(({ Properties }) => Properties.PolicyDocument.Statement);
}

export const listed = (value: string | string[]) => [value].flat();

const known: Record<string, string> = { "AWS::Partition": "aws", "AWS::AccountId": account };

/** As in an account: names joined and account-specific values filled in. */
export function resolved(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(resolved);
  if (typeof value !== "object" || value === null) return value;
  if ("Fn::Join" in value) {
    const [separator, parts] = value["Fn::Join"] as [string, unknown[]];
    return parts.map(resolved).join(separator);
  }
  if ("Ref" in value) return known[String(value.Ref)] ?? policyArn(String(value.Ref));
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, resolved(inner)]));
}

/** A boundary is the one kind of resource that others refer to. */
function policyArn(reference: string): string {
  const stage = /^Boundary(dev|production)/.exec(reference)?.[1];
  const name = stage === undefined ? reference : `concierge-${stage}-boundary`;
  return `arn:aws:iam::${account}:policy/${name}`;
}
