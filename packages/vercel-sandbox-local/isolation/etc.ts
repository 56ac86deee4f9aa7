import { copyFileSync, existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";

// Only what programs need to run. The API's own user owns all of /etc inside the sandbox when it is root, so
// giving the whole would let a sandbox read what only root may.
const FILES = [
  "bash.bashrc",
  "ca-certificates.conf",
  "debian_version",
  "host.conf",
  "hosts",
  "inputrc",
  "ld.so.cache",
  "ld.so.conf",
  "locale.alias",
  "localtime",
  "mime.types",
  "nsswitch.conf",
  "os-release",
  "profile",
  "protocols",
  "resolv.conf",
  "services",
  "ssl/openssl.cnf",
  "timezone",
];
const DIRECTORIES = [
  "alternatives",
  "java-17-openjdk",
  "java-21-openjdk",
  "ld.so.conf.d",
  "pki",
  "python3",
  "ssl/certs",
  "terminfo",
];
// They change while the API runs.
const LIVE_FILES = ["hosts", "resolv.conf"];

const PASSWD = `root:x:0:0:root:/root:/bin/bash
vercel-sandbox:x:1000:1000::/home/vercel-sandbox:/bin/bash
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
`;
const GROUP = "root:x:0:\nvercel-sandbox:x:1000:\nnogroup:x:65534:\n";

/** Makes the `/etc` of all sandboxes: small files as copies, for a mount apiece would slow every start. */
export function prepareEtc(directory: string): void {
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(path.join(directory, "ssl"), { recursive: true });
  for (const name of FILES) {
    if (existsSync(`/etc/${name}`)) copyFileSync(`/etc/${name}`, path.join(directory, name));
  }
  for (const name of DIRECTORIES) mkdirSync(path.join(directory, name), { recursive: true });
  writeFileSync(path.join(directory, "passwd"), PASSWD);
  writeFileSync(path.join(directory, "group"), GROUP);
}

/** bwrap's arguments for an `/etc` that was prepared. */
export function etcArguments(directory: string): string[] {
  const mounts = [...DIRECTORIES, ...LIVE_FILES].filter((name) => existsSync(`/etc/${name}`));
  return [
    ...["--ro-bind", directory, "/etc"],
    ...mounts.flatMap((name) => ["--ro-bind-try", `/etc/${name}`, `/etc/${name}`]),
  ];
}
