/**
 * What the api is behind in production: CloudFront with a rate limit. It signs what it forwards, and the
 * function's URL takes nothing that it has not signed: there is no way around it.
 */
import { firewallRules, keepAuthorization } from "./edge.ts";
import { stageOf } from "./stages.ts";

/** AWS's own, "CachingDisabled": an answer is for the key that asked. */
const noCachePolicy = "4135ea2d-6df8-44a3-9df3-4b5a84be39ad";

// What signs writes nothing down: its groups would be in every region that someone calls from, kept for ever.
$transform(aws.iam.Role, (role, _options, name) => {
  if (name === "RouterEdgeFunctionRole") role.managedPolicyArns = [];
});

export const router = stageOf($app.stage).isFronted ? createRouter() : undefined;

function createRouter(): sst.aws.Router {
  return new sst.aws.Router("Router", {
    protection: "oac-with-edge-signing",
    edge: { viewerRequest: { injection: keepAuthorization } },
    // AWS's managed rules take prompts, diffs and shells' output for attacks: rates are all that is limited.
    waf: { managedRules: { coreRuleSet: false, knownBadInputs: false, sqlInjection: false } },
    transform: {
      waf: {
        rules: firewallRules,
      },
      cdn: (cdn) => {
        cdn.defaultCacheBehavior = $output(cdn.defaultCacheBehavior).apply((behavior) => ({
          ...behavior,
          cachePolicyId: noCachePolicy,
          viewerProtocolPolicy: "https-only",
        }));
      },
    },
  });
}
