import type { NetworkPolicyRequest } from "../network/policy.ts";
import type { NetworkPolicy } from "../sandbox/records.ts";

/** The service's responses use an older form than its requests, and never contain header values. */
export function reportedPolicy(policy: NetworkPolicyRequest): NetworkPolicy {
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
