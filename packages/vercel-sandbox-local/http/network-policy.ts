import { z } from "zod";
import type { NetworkPolicy } from "../sandbox/records.ts";

const Rule = z.object({
  match: z.looseObject({}).optional(),
  transform: z.array(z.object({ headers: z.record(z.string(), z.string()).optional() })).optional(),
  forwardURL: z.string().optional(),
  response: z.looseObject({}).optional(),
});

export const NetworkPolicyRequest = z.union([
  z.object({ mode: z.enum(["allow-all", "deny-all"]) }),
  z.object({
    allow: z.union([z.array(z.string()), z.record(z.string(), z.array(Rule))]).optional(),
    subnets: z
      .object({ allow: z.array(z.string()).optional(), deny: z.array(z.string()).optional() })
      .optional(),
  }),
]);

/** The service's responses use an older form than its requests, and never contain header values. */
export function reportedPolicy(policy: z.infer<typeof NetworkPolicyRequest>): NetworkPolicy {
  if ("mode" in policy) return { mode: policy.mode };
  const { allow, subnets } = policy;
  const rules =
    allow === undefined || Array.isArray(allow)
      ? []
      : Object.entries(allow).flatMap(([domain, list]) => list.map((rule) => ({ domain, ...rule })));
  const injectionRules = rules
    .filter((rule) => rule.transform)
    .map(({ domain, match, transform = [] }) => ({
      domain,
      headerNames: transform.flatMap(({ headers = {} }) => Object.keys(headers)),
      ...(match && { match }),
    }));
  const forwardRules = rules.flatMap(({ domain, match, forwardURL }) =>
    forwardURL === undefined ? [] : [{ domain, forwardURL, ...(match && { match }) }],
  );
  return {
    mode: "custom",
    ...(allow && { allowedDomains: Array.isArray(allow) ? allow : Object.keys(allow) }),
    ...(subnets?.allow && { allowedCIDRs: subnets.allow }),
    ...(subnets?.deny && { deniedCIDRs: subnets.deny }),
    ...(injectionRules.length > 0 && { injectionRules }),
    ...(forwardRules.length > 0 && { forwardRules }),
  };
}
