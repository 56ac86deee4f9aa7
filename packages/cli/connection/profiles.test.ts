import { chmod, mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { isExposed, profilesFile, readProfiles, writeProfiles } from "./profiles.ts";

let directory: string;
let file: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "concierge-profiles-"));
  file = profilesFile({ XDG_CONFIG_HOME: directory });
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const profile = { url: "http://x.test", key: "secret" };

it("profiles are stored for the owner alone, also over a file that others could read", async () => {
  expect(await readProfiles(file)).toEqual({});
  await writeProfiles({ default: profile }, file);
  await chmod(file, 0o644);
  expect(await isExposed(file)).toBe(true);
  await writeProfiles({ default: profile, other: profile }, file);
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  expect((await stat(dirname(file))).mode & 0o777).toBe(0o700);
  expect(await isExposed(file)).toBe(false);
  expect(await readProfiles(file)).toEqual({ default: profile, other: profile });
  expect(await readdir(dirname(file))).toEqual(["profiles.json"]);
});

it("a file that is not valid is a usage error that says what to do", async () => {
  await writeProfiles({}, file);
  for (const text of ["{", "[]", '{"default":{"url":1}}', "null"]) {
    await writeFile(file, text);
    await expect(readProfiles(file)).rejects.toMatchObject({
      exitCode: 2,
      next: expect.stringContaining("login"),
    });
  }
});

it("without XDG_CONFIG_HOME they are below ~/.config", () => {
  expect(profilesFile({})).toMatch(/\/\.config\/concierge\/profiles\.json$/);
});
