import { type FunctionDefinition, fileNames, secretVariables, topology } from "../../../infra/topology.ts";
import { type Check, differs, find, isRecord, type Program, read, setDiffers } from "../resources.ts";

const definitions: [string, FunctionDefinition][] = Object.entries(topology.functions);

/** What SST itself adds to every function's environment. */
const ofSst = ["SST_KEY", "SST_KEY_FILE", "SST_RESOURCE_App"];

/** A function finds in `Resource` only what it has grants on, and its secrets. */
export const links: Check = (program) =>
  definitions.flatMap(([name, { grants, secrets }]) => {
    const build = program.builds.find(({ functionID }) => functionID === name);
    const granted = grants.map(({ on }) => on.split("/", 1)[0] ?? on);
    return setDiffers(`${name}'s links`, Object.keys(build?.links ?? {}), [...granted, ...secrets]);
  });

/** A function's variables when all of the topology's are set where it is deployed. */
export const variables: Check = (program) =>
  definitions.flatMap(([name, definition]) =>
    setDiffers(`${name}'s environment`, Object.keys(environmentOf(program, name)), [
      ...definition.environment,
      ...Object.keys(fileNames(definition)),
      ...ofSst,
    ]),
  );

/** What a stage is and may do does not depend on where it is deployed from. */
export const fixedVariables: Check = (program) =>
  definitions.flatMap(([name, { environment }]) => {
    const { CONCIERGE_STAGE, CONCIERGE_ALLOW_PRIVATE_HOSTS, CONCIERGE_URL } = environmentOf(program, name);
    const address = program.stage === "production" ? /^https:..d.cloudfront.net/ : /^https:..url.lambda-url/;
    return [
      ...differs(`${name}'s stage`, CONCIERGE_STAGE, program.stage),
      ...differs(`${name}'s way to private hosts`, CONCIERGE_ALLOW_PRIVATE_HOSTS, "false"),
      ...(environment.includes("CONCIERGE_URL") && !address.test(String(CONCIERGE_URL))
        ? [`${name} is told that the api is at ${CONCIERGE_URL}`]
        : []),
    ];
  });

/** A secret's value is only where it is named, and nowhere that Pulumi would show or store it in clear. */
export const secrets: Check = (program) =>
  Object.entries(program.secrets).flatMap(([secret, value]) => {
    const shownBy = program.resources.filter(({ shown }) => JSON.stringify(shown).includes(value));
    const holders = definitions.filter(([name]) => {
      const { links = {} } = program.builds.find(({ functionID }) => functionID === name) ?? {};
      return JSON.stringify([environmentOf(program, name), links]).includes(value);
    });
    const named = definitions.filter(
      ([, { environment, secrets }]) =>
        secrets.includes(secret) || environment.some((one) => secretVariables[one]?.secret === secret),
    );
    return [
      ...shownBy.map(({ name }) => `${name} shows ${secret}`),
      ...setDiffers(
        `who has ${secret}`,
        holders.map(([name]) => name),
        named.map(([name]) => name),
      ),
    ];
  });

function environmentOf(program: Program, name: string): Record<string, unknown> {
  const found = read(find(program, "function", `${name}Function`), "environment.variables");
  return isRecord(found) ? found : {};
}
