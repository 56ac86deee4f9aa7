import { firewallRules, keepAuthorization } from "../../../infra/edge.ts";
import { all, arnOf, type Check, differs, find, list, nameOf, type Program, read } from "../resources.ts";

/** Only the api is reachable from outside, by its URL, and it streams. */
export const url: Check = (program) => {
  const urls = all(program, "functionUrl");
  const own = find(program, "functionUrl", "ApiUrl");
  return [
    ...differs(
      "the functions with a URL",
      urls.map((one) => read(one, "functionName")),
      [api(program)],
    ),
    ...differs("the api's invoke mode", read(own, "invokeMode"), "RESPONSE_STREAM"),
    ...differs("the api's CORS", read(own, "cors"), undefined),
  ];
};

/** Who may invoke what: in production only CloudFront's distribution, elsewhere anyone; only the api. */
export const invokers: Check = (program) => {
  const isProduction = program.stage === "production";
  const [principal, sourceArn] = isProduction
    ? ["cloudfront.amazonaws.com", arnOf(all(program, "distribution")[0])]
    : ["*", undefined];
  const given = all(program, "permission");
  return [
    ...differs(
      "the api's authorization",
      read(find(program, "functionUrl", "ApiUrl"), "authorizationType"),
      isProduction ? "AWS_IAM" : "NONE",
    ),
    ...given.flatMap((permission) => [
      ...differs(`${permission.name}'s function`, read(permission, "function"), api(program)),
      ...differs(`${permission.name}'s principal`, read(permission, "principal"), principal),
      ...differs(`${permission.name}'s source`, read(permission, "sourceArn"), sourceArn),
      ...(read(permission, "action") === "lambda:InvokeFunction"
        ? differs(`${permission.name}'s way`, read(permission, "invokedViaFunctionUrl"), true)
        : differs(`${permission.name}'s action`, read(permission, "action"), "lambda:InvokeFunctionUrl")),
    ]),
  ];
};

/** In production the api is behind a router that limits rates, caches nothing and accepts only TLS. */
export const router: Check = (program) => {
  const distributions = all(program, "distribution");
  if (program.stage !== "production") return differs("the number of routers", distributions.length, 0);
  const [distribution] = distributions;
  const [waf] = all(program, "waf");
  return [
    ...differs("the number of routers", distributions.length, 1),
    ...differs("the router's firewall", read(distribution, "webAclId"), arnOf(waf)),
    ...differs(
      "the router's protocol",
      read(distribution, "defaultCacheBehavior.viewerProtocolPolicy"),
      "https-only",
    ),
    ...differs(
      "the router's cache",
      read(distribution, "defaultCacheBehavior.cachePolicyId"),
      "4135ea2d-6df8-44a3-9df3-4b5a84be39ad",
    ),
    ...(String(read(find(program, "edgeFunction", "RouterCloudfrontFunctionRequest"), "code")).includes(
      keepAuthorization,
    )
      ? []
      : ["the router's signature takes the place of the caller's key"]),
    ...differs("the firewall's rules", list(read(waf, "rules")), firewallRules),
  ];
};

function api(program: Program): string {
  return nameOf(find(program, "function", "ApiFunction"));
}
