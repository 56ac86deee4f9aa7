/** The part of the SST CLI that components call while the program runs. */
import { mkdir, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { account, region } from "./mocks.ts";
import type { Build } from "./program.ts";

interface Call {
  method: string;
  params: [Build];
}

export async function startCli(directory: string) {
  const builds: Build[] = [];
  const server = createServer(async (request, response) => {
    const { method, params } = (await json(request)) as Call;
    response.end(JSON.stringify({ jsonrpc: "1.0", result: await answer(method, params[0]) }));
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, builds };

  async function answer(method: string, build: Build): Promise<object> {
    switch (method) {
      case "Provider.Aws.Bootstrap":
        return {
          asset: "sst-asset",
          state: "sst-state",
          assetEcrRegistryId: account,
          assetEcrUrl: `${account}.dkr.ecr.${region}.amazonaws.com/sst-asset`,
        };
      case "Runtime.Build":
        builds.push(build);
        return await bundled(build);
      default:
        return {};
    }
  }

  /** The real one adds the encrypted contents of `Resource` to the given directory. */
  async function bundled({ functionID, handler }: Build): Promise<object> {
    const out = join(directory, "artifacts", `${functionID}-src`);
    await mkdir(out, { recursive: true });
    await writeFile(join(out, "bundle.mjs"), "export const handler = () => {};\n");
    return { handler, out, errors: [], sourcemaps: [] };
  }
}
