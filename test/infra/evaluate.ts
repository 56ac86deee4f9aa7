/** The process that evaluates a program: `evaluate.ts <root> <directory of the bundle> <stage>`. */
import { createRequire } from "node:module";
import { join } from "node:path";
import { setImmediate as next } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { startCli } from "./cli-server.ts";
import { call, masked, type Registration, stateOf, unwrapped } from "./mocks.ts";
import type { Evaluated, Resource } from "./program.ts";

/** After this many rounds of the event loop without a new resource, none is coming any more. */
const quietRounds = 50;

interface Program {
  config: { app(input: { stage: string }): Promise<Evaluated["app"]>; run(): Promise<unknown> };
  run(program: () => Promise<unknown>): Promise<unknown>;
}

interface Transformed {
  type: string;
  name: string;
  opts: { retainOnDelete?: boolean };
}

interface Pulumi {
  runtime: {
    setMocks(mocks: object, project: string, stack: string, preview: boolean): Promise<void>;
    runInPulumiStack(program: () => Promise<unknown>): Promise<unknown>;
    registerStackTransformation(transformation: (args: Transformed) => undefined): void;
    waitForRPCs(): Promise<void>;
  };
}

const [root = "", directory = "", stage = ""] = process.argv.slice(2);

function fail(error: unknown): void {
  process.send?.({ error: error instanceof Error ? (error.stack ?? error.message) : String(error) }, () =>
    process.exit(1),
  );
}

process.on("unhandledRejection", fail);
process.on("uncaughtException", fail);

try {
  const evaluated = await evaluate();
  process.send?.({ evaluated }, () => process.exit(0));
} catch (error) {
  fail(error);
}

async function evaluate(): Promise<Evaluated> {
  const { runtime } = createRequire(join(directory, "program.mjs"))("@pulumi/pulumi") as Pulumi;
  const registered: Registration[] = [];
  const retained = new Set<string>();
  const newResource = (registration: Registration) => {
    registered.push(registration);
    return { id: `${registration.name}-id`, state: stateOf(registration) };
  };
  await runtime.setMocks({ newResource, call }, "concierge", stage, false);

  const cli = await startCli(directory);
  process.env.SST_SERVER = cli.url;
  const paths = { home: directory, root, work: directory, platform: join(root, ".sst/platform") };
  const globals: Record<string, unknown> = globalThis;
  globals.$cli = { command: "deploy", paths, state: { version: {} } };
  const { config, run }: Program = await import(pathToFileURL(join(directory, "program.mjs")).href);
  const app = await config.app({ stage });
  globals.$app = { providers: {}, ...app, stage };

  await runtime.runInPulumiStack(() =>
    run(() => {
      // The last transformation sees what the others made of a resource's options.
      runtime.registerStackTransformation(({ type, name, opts }) => {
        if (opts.retainOnDelete) retained.add(`${type} ${name}`);
        return undefined;
      });
      return config.run();
    }),
  );
  await settled(() => registered.length + cli.builds.length, runtime);

  const resources = registered.map(
    ({ type, name, inputs }): Resource => ({
      type,
      name,
      inputs: unwrapped(inputs) as Resource["inputs"],
      shown: masked(inputs) as Resource["shown"],
      isRetained: retained.has(`${type} ${name}`),
    }),
  );
  return { app, resources, builds: cli.builds };
}

/** Resources are registered by chains of `apply`, some on other resources' outputs. */
async function settled(count: () => number, runtime: Pulumi["runtime"]): Promise<void> {
  let last = -1;
  for (let quiet = 0; quiet < quietRounds; quiet++) {
    await runtime.waitForRPCs();
    await next();
    if (count() === last) continue;
    last = count();
    quiet = 0;
  }
}
