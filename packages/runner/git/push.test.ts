import { expect, test } from "vitest";
import { isRefusal } from "./push.ts";

const line = (summary: string) => `To http://host/app.git\n!\tabc:refs/heads/work\t${summary}\nDone\n`;

test.each([
  ["the branch has moved", line("[rejected] (fetch first)"), ""],
  ["not a fast-forward", line("[rejected] (non-fast-forward)"), ""],
  ["status 403", "", "fatal: unable to access 'http://host/': The requested URL returned error: 403"],
  ["status 404", "", "error: RPC failed; HTTP 404 curl 22 The requested URL returned error: 404"],
  ["a wrong credential", "", "fatal: Authentication failed for 'http://host/app.git/'"],
  ["no credential", "", "fatal: could not read Username for 'http://host': terminal prompts disabled"],
])("a push was certainly refused: %s", (_, stdout, stderr) => {
  expect(isRefusal({ stdout, stderr })).toBe(true);
});

test.each([
  ["a rejection by the remote", line("[remote rejected] (failed to update ref)"), ""],
  ["no report from the remote", line("[remote failure] (remote failed to report status)"), ""],
  ["status 503", "", "error: RPC failed; HTTP 503 curl 22 The requested URL returned error: 503"],
  ["status 408", "", "error: RPC failed; HTTP 408 curl 22 The requested URL returned error: 408"],
  ["a broken connection", "", "error: RPC failed; curl 52 Empty reply from server"],
  ["no connection", "", "fatal: unable to access 'http://host/': Failed to connect to host port 80"],
  ["no message", "", ""],
])("the outcome of a push is unclear: %s", (_, stdout, stderr) => {
  expect(isRefusal({ stdout, stderr })).toBe(false);
});
