import { describe, expect, it } from "vitest";
import { resolveConnection } from "./resolve.ts";

const profiles = {
  default: { url: "https://one.test/", key: "key-one" },
  staging: { url: "https://two.test", key: "key-two" },
};

describe("URL and key", () => {
  it.each([
    ["nothing", {}, {}, {}, { url: "http://127.0.0.1:4000", key: undefined }],
    ["the default profile", {}, {}, profiles, { url: "https://one.test", key: "key-one" }],
    [
      "the environment over the default profile",
      {},
      { CONCIERGE_URL: "http://e.test", CONCIERGE_API_KEY: "k" },
      profiles,
      { url: "http://e.test", key: "k" },
    ],
    [
      "a named profile over the environment",
      { profile: "staging" },
      { CONCIERGE_URL: "http://e.test", CONCIERGE_API_KEY: "k" },
      profiles,
      { url: "https://two.test", key: "key-two" },
    ],
    [
      "options over everything",
      { url: "http://o.test", key: "o", profile: "staging" },
      {},
      profiles,
      { url: "http://o.test", key: "o" },
    ],
    [
      "the key of the environment for a profile's URL",
      {},
      { CONCIERGE_API_KEY: "k" },
      profiles,
      { url: "https://one.test", key: "k" },
    ],
  ])("come from %s", (_, options, env, stored, wanted) => {
    expect(resolveConnection(options, env, stored)).toEqual(wanted);
  });

  it("a profile's key is never sent to another URL", () => {
    expect(resolveConnection({ url: "http://evil.test" }, {}, profiles).key).toBeUndefined();
    expect(resolveConnection({}, { CONCIERGE_URL: "http://evil.test" }, profiles).key).toBeUndefined();
    expect(resolveConnection({ url: "https://one.test/" }, {}, profiles).key).toBe("key-one");
  });

  it("a profile that does not exist and a URL that is none are usage errors", () => {
    expect(() => resolveConnection({ profile: "nope" }, {}, profiles)).toThrow(/no profile "nope"/);
    for (const url of ["zzz", "ftp://x", ""])
      expect(() => resolveConnection({ url }, {}, {})).toThrow(/not a URL/);
  });
});
