/** The AWS SDK as a function on Lambda comes to use it: its clients bring what is needed elsewhere, and by others. */
import { readFile } from "node:fs/promises";
import type { Plugin } from "esbuild";

/**
 * The other sources of credentials: a function has its own in the environment, so they are never loaded; and Lambda
 * has them, should they be. Every import of them would split what is shared once more, and a file more is a
 * millisecond of a cold start.
 */
export const leaveOutCredentials: Plugin = {
  name: "leave-out-credentials",
  setup({ onResolve }) {
    const sources = /^@aws-sdk\/credential-provider-|^@smithy\/credential-provider-imds$/;
    onResolve({ filter: sources }, ({ kind }) =>
      kind === "dynamic-import" ? { external: true } : undefined,
    );
  },
};

/** Modules that come with a client and are not used by a function, and what stands in for each. */
const standIns: Readonly<Record<string, string>> = {
  // Endpoints are not discovered by any command of ours; a cache that keeps nothing would do if they were.
  "node_modules/@aws-sdk/endpoint-cache/dist-es/EndpointCache.js":
    "export class EndpointCache { get() {} getEndpoint() {} has() { return false; } set() {} delete() {} clear() {} }",
  // For a machine of EC2's; a function is told its region.
  "node_modules/@smithy/core/dist-es/submodules/config/config-resolver/regionConfig/getInstanceMetadataRegion.js":
    "export const getInstanceMetadataRegion = async () => undefined;",
  // For a Node that is built without crypto.
  "node_modules/@smithy/core/dist-es/submodules/checksum/sha256/Sha256Js.js":
    "export const Sha256Js = undefined;",
  "node_modules/@smithy/core/dist-es/submodules/checksum/md5/Md5Js.js": "export const Md5Js = undefined;",
  // For AWS_RETRY_MODE=adaptive, which no function is given.
  "node_modules/@smithy/core/dist-es/submodules/retry/util-retry/AdaptiveRetryStrategy.js":
    'export class AdaptiveRetryStrategy { constructor() { throw new Error("The bundle has no adaptive retries."); } }',
};

/**
 * The errors that commands on items are answered with. Any other would come as the client's base exception, with the
 * same name, message and status: all that is lost is a class to ask for.
 */
export const itemErrors: readonly string[] = [
  "ConditionalCheckFailedException",
  "InternalServerError",
  "InvalidEndpointException",
  "ItemCollectionSizeLimitExceededException",
  "ProvisionedThroughputExceededException",
  "ReplicatedWriteConflictException",
  "RequestLimitExceeded",
  "ResourceNotFoundException",
  "ThrottlingException",
  "TransactionConflictException",
];

const client = "node_modules/@aws-sdk/client-dynamodb/";
const schemas = `${client}dist-es/schemas/schemas_0.js`;
const manifest = `${client}package.json`;

/** Where the client is bundled, all that this looks for must be, too: an SDK that is laid out anew fails the build. */
export const leaveOutUnused: Plugin = {
  name: "leave-out-unused",
  setup({ onLoad, onEnd }) {
    for (const [module, contents] of Object.entries(standIns)) {
      onLoad({ filter: new RegExp(`/${module}$`) }, () => ({ contents }));
    }
    onLoad({ filter: new RegExp(`/${schemas}$`) }, async ({ path }) => ({
      contents: withItemErrors(await readFile(path, "utf8")),
    }));
    // A client asks for its version alone, for the user agent.
    onLoad({ filter: /\/node_modules\/@aws-sdk\/client-\w+\/package\.json$/ }, async ({ path }) => {
      const { version } = JSON.parse(await readFile(path, "utf8"));
      return { contents: JSON.stringify({ version }), loader: "json" };
    });
    onEnd(({ metafile }) => {
      const modules = Object.keys(metafile?.inputs ?? {});
      if (!modules.some((module) => module.startsWith(client))) return {};
      const missed = [...Object.keys(standIns), schemas, manifest].filter(
        (module) => !modules.includes(module),
      );
      return { errors: missed.map((module) => ({ text: `${module} is not there any more` })) };
    });
  },
};

/** A class that is not registered is not in the bundle. */
export function withItemErrors(text: string): string {
  const missed = new Set(itemErrors);
  const rest = text.replace(/^n0_registry\.registerError\((\w+)\$, \1\);$/gm, (line, name) =>
    missed.delete(name) ? line : "",
  );
  if (missed.size > 0) throw new Error(`not registered as an error: ${[...missed].join(", ")}`);
  return rest;
}
