import { Stack } from "aws-cdk-lib";
import {
  Effect,
  ManagedPolicy,
  type OidcProviderNative,
  PolicyStatement,
  Role,
  WebIdentityPrincipal,
} from "aws-cdk-lib/aws-iam";
import type { Construct } from "constructs";
import { type DeployGrant, deployGrants, forbidden } from "./deploy-grants.ts";
import { acknowledgeWildcards } from "./nag.ts";
import type { Settings } from "./settings.ts";

interface Deployment {
  stage: string;
  settings: Settings;
  github: OidcProviderNative;
  boundary: ManagedPolicy;
}

const issuer = "token.actions.githubusercontent.com";

/** The role that deploys a stage, for workflows of this repository in the GitHub environment of that name. */
export function createDeployRole(scope: Construct, { stage, settings, github, boundary }: Deployment): Role {
  const role = new Role(scope, `Deploy-${stage}`, {
    roleName: `concierge-deploy-${stage}`,
    description: `Deploys Concierge's stage ${stage} from GitHub.`,
    assumedBy: new WebIdentityPrincipal(github.oidcProviderArn, {
      StringEquals: {
        [`${issuer}:aud`]: "sts.amazonaws.com",
        [`${issuer}:sub`]: `repo:${settings.repository}:environment:${stage}`,
      },
    }),
  });
  const around = { stack: Stack.of(scope), stage, boundaryArn: boundary.managedPolicyArn };
  for (const [name, grants] of Object.entries(deployGrants(around)))
    attach(scope, role, `${stage}-${name}`, Effect.ALLOW, grants);
  attach(scope, role, `${stage}-forbidden`, Effect.DENY, forbidden(around));
  return role;
}

/** One policy per group, because a policy has at most 6,144 characters. */
function attach(
  scope: Construct,
  role: Role,
  name: string,
  effect: Effect,
  grants: readonly DeployGrant[],
): void {
  const policy = new ManagedPolicy(scope, `Deploy-${name}`, {
    managedPolicyName: `concierge-deploy-${name}`,
    roles: [role],
    statements: grants.map(
      ({ actions, on, when }) =>
        new PolicyStatement({
          effect,
          actions: [...actions],
          resources: [...on],
          ...(when && { conditions: when }),
        }),
    ),
  });
  if (effect === Effect.DENY) return;
  for (const { actions, on, why = namedByStage } of grants)
    acknowledgeWildcards(policy, [...actions, ...on], why);
}

const namedByStage = "Only resources of this stage. SST adds random letters to their names.";
