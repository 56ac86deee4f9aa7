/** What CloudFront and its firewall do with each request, as plain data without IaC imports. */
import { type RateLimit, rateLimits, runnerPaths } from "./topology.ts";

/**
 * Signing replaces `authorization`, so the caller's value is copied to the second header, which the api reads first. The
 * caller's address is for the audit log. What the caller sent in either header is overwritten.
 */
export const keepAuthorization = `
  delete event.request.headers["x-forwarded-authorization"];
  event.request.headers["x-viewer-address"] = { value: event.viewer.ip };
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
 * A runner's request has a token and a path that starts with the runner's prefix, both as sent and as the api normalizes
 * it. The api resolves `..`, `%2e%2e` and backslashes, so `/v1/runner/../tasks` counts as a user's request. So does a path
 * that has the prefix only after decoding.
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

const hasAuthorization = {
  sizeConstraintStatement: {
    comparisonOperator: "GT",
    size: 0,
    fieldToMatch: authorization,
    textTransformations: transformations("NONE"),
  },
};
const not = <Statement>(statement: Statement) => ({ notStatement: { statements: [statement] } });
const both = <One, Other>(one: One, other: Other) => ({ andStatement: { statements: [one, other] } });
const byAuthorization = {
  aggregateKeyType: "CUSTOM_KEYS",
  customKeys: [{ header: { name: "authorization", textTransformations: transformations("NONE") } }],
};

/**
 * Runners are counted by token, because hundreds of sandboxes share one address. Users are counted by key, and by address
 * as well: otherwise a caller that sends a new key each time would not be counted at all.
 */
export const firewallRules = [
  rateRule("Runners", 0, rateLimits.runners, {
    ...byAuthorization,
    scopeDownStatement: ofRunners,
  }),
  rateRule("Keys", 1, rateLimits.keys, {
    ...byAuthorization,
    scopeDownStatement: both(hasAuthorization, not(ofRunners)),
  }),
  rateRule("Addresses", 2, rateLimits.addresses, {
    aggregateKeyType: "IP",
    scopeDownStatement: both(hasAuthorization, not(ofRunners)),
  }),
  rateRule("Anonymous", 3, rateLimits.anonymous, {
    aggregateKeyType: "IP",
    scopeDownStatement: not(hasAuthorization),
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
