import { expect, it } from "vitest";
import { checkHost } from "./hosts.ts";

const check = (url: string) => () => checkHost(url, "repo.url", false);

it.each(["https://github.com/a/b", "https://api.localise.com/x"])("accepts %s", (url) => {
  expect(check(url)).not.toThrow();
});

it.each([
  ["http://github.com/a/b", "repo.url: must be an https URL"],
  ["https://localhost/x", "repo.url: must not name a private address"],
  ["https://[64:ff9b::7f00:1]/x", "repo.url: must not name a private address"],
  ["https://[2002:7f00:1::]/x", "repo.url: must not name a private address"],
  ["https://198.18.0.1/x", "repo.url: must not name a private address"],
  ["https://2130706433/x", "repo.url: must not name a private address"],
])("refuses %s", (url, message) => {
  expect(check(url)).toThrow(message);
});
