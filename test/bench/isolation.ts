import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { repositoryRoot } from "@concierge/bundler";
import { Sandbox } from "@vercel/sandbox";
import type * as Api from "vercel-sandbox-local";
import * as current from "vercel-sandbox-local";
import { type Benchmark, interleaved, percentile, timed } from "./harness.ts";

/** The last commit whose sandboxes shared the host's network and had no filter for system calls. */
const sharedNetwork = "bdddc85";
const rounds = 40;
const warmUpRounds = 5;

export const isolation: Benchmark = {
  name: "isolation",
  about: `${rounds} creates and commands of local sandboxes with their own network, against those of ${sharedNetwork}`,
  async run() {
    await using scratch = await directory();
    const [own, shared] = await Promise.all([
      measured(current, join(scratch.path, "own")),
      measured(await checkedOut(sharedNetwork, scratch.path), join(scratch.path, "shared")),
    ]);
    await interleaved(rounds + warmUpRounds, [own.round, shared.round]);
    await Promise.all([own.close(), shared.close()]);
    const figure = (what: "create" | "first" | "run", name: string) => ({
      what: `local sandbox, ${name}, p50`,
      unit: "ms" as const,
      value: percentile(own[what].slice(warmUpRounds), 50),
      baseline: { what: "without its own network", value: percentile(shared[what].slice(warmUpRounds), 50) },
      target: { of: "ratio" as const, atMost: 1.3 },
    });
    return [
      figure("create", "create"),
      figure("first", "create and first command"),
      figure("run", "later command"),
    ];
  },
};

async function measured({ startSandboxApi, localFetch }: typeof Api, dataDir: string) {
  const api = await startSandboxApi({ dataDir, isolation: "bwrap", tokens: ["bench"] });
  const local = { token: "bench", teamId: "t", projectId: "p", fetch: localFetch(api.url) };
  const samples = { create: [] as number[], first: [] as number[], run: [] as number[] };
  return {
    ...samples,
    async round() {
      const began = performance.now();
      const sandbox = await Sandbox.create({ ...local, persistent: false });
      samples.create.push(performance.now() - began);
      await sandbox.runCommand("true");
      samples.first.push(performance.now() - began);
      samples.run.push(await timed(() => sandbox.runCommand("true")));
      await sandbox.delete();
    },
    close: () => api.close(),
  };
}

/** The package as it was. It finds its dependencies through the link beside it. */
async function checkedOut(commit: string, into: string): Promise<typeof Api> {
  const name = "packages/vercel-sandbox-local";
  const archive = execFileSync("git", ["archive", commit, name], {
    cwd: repositoryRoot,
    maxBuffer: 64 * 1024 * 1024,
  });
  const target = join(into, "baseline");
  mkdirSync(target);
  execFileSync("tar", ["-x", "-C", target], { input: archive });
  return (await import(pathToFileURL(join(target, name, "index.ts")).href)) as typeof Api;
}

async function directory() {
  const path = mkdtempSync(join(tmpdir(), "concierge-bench-"));
  execFileSync("ln", ["-s", join(repositoryRoot, "node_modules"), join(path, "node_modules")]);
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}
