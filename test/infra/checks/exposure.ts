import { firewallRules, keepAuthorization } from "../../../infra/edge.ts";
import { type FunctionDefinition, topology } from "../../../infra/topology.ts";
import {
  all,
  arnOf,
  type Check,
  differs,
  find,
  list,
  nameOf,
  type Program,
  read,
  setDiffers,
} from "../resources.ts";

/** Only the api and the runners' api are reachable from outside, by their URLs, and they stream. */
export const url: Check = (program) => {
  const urls = all(program, "functionUrl");
  return [
    ...setDiffers(
      "the functions with a URL",
      urls.map((one) => String(read(one, "functionName"))),
      served.map((name) => functionNamed(program, name)),
    ),
    ...served.flatMap((name) => {
      const own = find(program, "functionUrl", `${name}Url`);
      return [
        ...differs(`${name}'s invoke mode`, read(own, "invokeMode"), "RESPONSE_STREAM"),
        ...differs(`${name}'s CORS`, read(own, "cors"), undefined),
      ];
    }),
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
    ...served.flatMap((name) =>
      differs(
        `${name}'s authorization`,
        read(find(program, "functionUrl", `${name}Url`), "authorizationType"),
        isProduction ? "AWS_IAM" : "NONE",
      ),
    ),
    ...given.flatMap((permission) => [
      ...(served.some((name) => functionNamed(program, name) === read(permission, "function"))
        ? []
        : [`${permission.name} is for ${read(permission, "function")}, which nobody may invoke`]),
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
    ...definitions
      .filter(([, { http }]) => http)
      .flatMap(([name, { path = "" }]) => {
        const update = program.resources.find((one) => one.name.startsWith(`${name}RoutesUpdate`));
        // `<kind>,<namespace>,<host>,<path>`
        return differs(`${name}'s path at the router`, String(read(update, "entry")).split(",")[3], path);
      }),
    ...differs("the firewall's rules", list(read(waf, "rules")), firewallRules),
  ];
};

const definitions: [string, FunctionDefinition][] = Object.entries(topology.functions);
const served = definitions.filter(([, { http }]) => http).map(([name]) => name);

function functionNamed(program: Program, name: string): string {
  return nameOf(find(program, "function", `${name}Function`));
}
