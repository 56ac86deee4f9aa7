/**
 * What the api is behind in production: CloudFront with a rate limit. It signs what it forwards, and the
 * function's URL takes nothing that it has not signed: there is no way around it.
 */
import { keepAuthorization } from "./edge.ts";
import { stageOf } from "./stages.ts";
import { type RateLimit, rateLimits, runnerPaths } from "./topology.ts";

/** AWS's own, "CachingDisabled": an answer is for the key that asked. */
const noCachePolicy = "4135ea2d-6df8-44a3-9df3-4b5a84be39ad";

const ofRunners = {
  byteMatchStatement: {
    searchString: runnerPaths,
    positionalConstraint: "STARTS_WITH",
    fieldToMatch: { uriPath: {} },
    textTransformations: [{ priority: 0, type: "NONE" }],
  },
};

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
        rules: [
          rateRule("Runners", 0, rateLimits.runners, ofRunners),
          rateRule("Users", 1, rateLimits.users, { notStatement: { statements: [ofRunners] } }),
        ],
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

function rateRule(name: string, priority: number, { perFiveMinutes }: RateLimit, scopeDownStatement: object) {
  return {
    name,
    priority,
    action: { block: {} },
    statement: {
      rateBasedStatement: {
        limit: perFiveMinutes,
        evaluationWindowSec: 300,
        aggregateKeyType: "IP",
        scopeDownStatement,
      },
    },
    visibilityConfig: { cloudwatchMetricsEnabled: true, metricName: name, sampledRequestsEnabled: false },
  };
}
