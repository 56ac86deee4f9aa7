/**
 * CloudFront with a rate limit, in front of the api in production. It signs what it forwards, and the function URL accepts
 * only signed requests, so it cannot be bypassed.
 */
import { firewallRules, keepAuthorization } from "./edge.ts";
import { stageOf } from "./stages.ts";

/** AWS's managed policy "CachingDisabled": answers depend on the caller's key. */
const noCachePolicy = "4135ea2d-6df8-44a3-9df3-4b5a84be39ad";

// The signing function does not log: its log groups would be in every region with callers and never expire.
$transform(aws.iam.Role, (role, _options, name) => {
  if (name === "RouterEdgeFunctionRole") role.managedPolicyArns = [];
});

export const router = stageOf($app.stage).isFronted ? createRouter() : undefined;

function createRouter(): sst.aws.Router {
  return new sst.aws.Router("Router", {
    protection: "oac-with-edge-signing",
    edge: { viewerRequest: { injection: keepAuthorization } },
    // Only rate limits: AWS's managed rules mistake prompts, diffs and shell output for attacks.
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
