/** What CloudFront and its firewall do with each request, before the router's own; no IaC import here. */
import { type RateLimit, rateLimits, runnerPaths } from "./topology.ts";

/** Signing replaces `authorization`: the api looks for the caller's own in the second first. */
export const keepAuthorization = `
  delete event.request.headers["x-forwarded-authorization"];
  if (event.request.headers.authorization) {
    event.request.headers["x-forwarded-authorization"] = event.request.headers.authorization;
  }`;

const transformations = (...types: string[]) => types.map((type, priority) => ({ priority, type }));
const authorization = { singleHeader: { name: "authorization" } };
const startsLikeRunners = (...types: string[]) => ({
  byteMatchStatement: {
    searchString: runnerPaths,
    positionalConstraint: "STARTS_WITH",
    fieldToMatch: { uriPath: {} },
    textTransformations: transformations(...types),
  },
});

/**
 * A request of a runner: its path begins with the runners', as it is sent and as the api reads it, and it has a token.
 * The api takes `..`, `%2e%2e` and backslashes out of a path, so `/v1/runner/../tasks` is a user's request; and what
 * only looks like a runner's path once it is decoded is one, too.
 */
const ofRunners = {
  andStatement: {
    statements: [
      startsLikeRunners("NONE"),
      startsLikeRunners("URL_DECODE", "NORMALIZE_PATH_WIN"),
      {
        sizeConstraintStatement: {
          comparisonOperator: "GT",
          size: 0,
          fieldToMatch: authorization,
          textTransformations: transformations("NONE"),
        },
      },
    ],
  },
};

/** Hundreds of sandboxes share one address of the provider's: a runner is counted by its token, everybody else by address. */
export const firewallRules = [
  rateRule("Runners", 0, rateLimits.runners, {
    aggregateKeyType: "CUSTOM_KEYS",
    customKeys: [{ header: { name: "authorization", textTransformations: transformations("NONE") } }],
    scopeDownStatement: ofRunners,
  }),
  rateRule("Users", 1, rateLimits.users, {
    aggregateKeyType: "IP",
    scopeDownStatement: { notStatement: { statements: [ofRunners] } },
  }),
];

function rateRule<Counting extends object>(
  name: string,
  priority: number,
  { perFiveMinutes }: RateLimit,
  counting: Counting,
) {
  return {
    name,
    priority,
    action: { block: {} },
    statement: {
      rateBasedStatement: { limit: perFiveMinutes, evaluationWindowSec: 300, ...counting },
    },
    visibilityConfig: { cloudwatchMetricsEnabled: true, metricName: name, sampledRequestsEnabled: false },
  };
}
