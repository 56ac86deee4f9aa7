import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runnerExit } from "@concierge/protocol";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FakeConcierge, type Tls } from "./testing/concierge.ts";
import { type Bundle, bundleRunner, nodeVersions, Turn } from "./testing/runner.ts";

let bundle: Bundle;
let directory: string;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "concierge-tls-"));
  bundle = await bundleRunner();
});

afterAll(() => {
  bundle[Symbol.dispose]();
  rmSync(directory, { recursive: true, force: true });
});

/** A self-signed certificate for this name, and the variables that make a runner trust it. */
function certify(name: string): { tls: Tls; trust: Record<string, string> } {
  const key = join(directory, "key.pem");
  const cert = join(directory, `${name}.pem`);
  const args = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  args.push("-subj", `/CN=${name}`, "-addext", `subjectAltName=DNS:${name}`, "-keyout", key, "-out", cert);
  execFileSync("openssl", args, { stdio: "ignore" });
  return {
    tls: { key: readFileSync(key, "utf8"), cert: readFileSync(cert, "utf8") },
    trust: { NODE_EXTRA_CA_CERTS: cert },
  };
}

describe("over TLS", () => {
  test.each(nodeVersions)("a turn reaches Concierge on %s", async (_, node) => {
    const { tls, trust } = certify("localhost");
    await using concierge = await FakeConcierge.start(tls);
    await using turn = new Turn(bundle, concierge, "seq 1 100000", { node, variables: trust });
    expect(await turn.launch().exited).toBe(runnerExit.done);
    expect(concierge.text("stdout").endsWith("\n99999\n100000\n")).toBe(true);
    expect(concierge.end).toMatchObject({ reason: "exited", exitCode: 0 });
  });

  test.each([
    ["with an untrusted certificate", "localhost", false],
    ["with a certificate for another name", "elsewhere.test", true],
  ])("nothing is sent to a server %s", async (_, name, isTrusted) => {
    const { tls, trust } = certify(name);
    await using concierge = await FakeConcierge.start(tls);
    const limits = { maxDurationMs: 600, timings: { giveUpMs: 400 } };
    const variables = isTrusted ? trust : {};
    await using turn = new Turn(bundle, concierge, "echo hello", { ...limits, variables });
    expect(await turn.launch().exited).toBe(runnerExit.gaveUp);
    expect(concierge.posts).toEqual([]);
  });
});
