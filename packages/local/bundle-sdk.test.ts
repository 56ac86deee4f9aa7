import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Plugin } from "esbuild";
import { expect, test } from "vitest";
import { bundle } from "./bundle.ts";
import { leaveOutUnused, withItemErrors } from "./bundle-sdk.ts";

test("a build fails where what is left out of the SDK is not to be found any more", async () => {
  const movedAway: Plugin = {
    name: "moved-away",
    setup({ onResolve }) {
      onResolve({ filter: /^@aws-sdk\/endpoint-cache$/ }, () => ({ external: true }));
    },
  };
  const directory = await mkdtemp(join(tmpdir(), "concierge-bundle-"));
  try {
    const build = bundle("packages/store/index.ts", directory, {
      splitting: true,
      plugins: [movedAway, leaveOutUnused],
    });
    await expect(build).rejects.toThrow(
      /Build failed with 1 error:.*EndpointCache\.js is not there any more/s,
    );
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});

test("and where the SDK registers its errors in another way", () => {
  expect(() => withItemErrors("registry.register(ConditionalCheckFailedException);")).toThrow(
    /not registered as an error: ConditionalCheckFailedException, /,
  );
});
