import { copyFileSync, existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";

// Only what programs need. If the API runs as root, its sandboxes could otherwise read files in /etc that only root
// may read.
const copiedFiles = [
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
const mountedDirectories = [
  "alternatives",
  "java-17-openjdk",
  "java-21-openjdk",
  "ld.so.conf.d",
  "pki",
  "python3",
  "ssl/certs",
  "terminfo",
];
// These can change while the API runs.
const liveFiles = ["hosts", "resolv.conf"];

const passwd = `root:x:0:0:root:/root:/bin/bash
vercel-sandbox:x:1000:1000::/home/vercel-sandbox:/bin/bash
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
`;
const group = "root:x:0:\nvercel-sandbox:x:1000:\nnogroup:x:65534:\n";

/** Creates the `/etc` of all sandboxes. Small files are copied; a mount for each would slow every start. */
export function prepareEtc(directory: string): void {
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(path.join(directory, "ssl"), { recursive: true });
  for (const name of copiedFiles) {
    if (existsSync(`/etc/${name}`)) copyFileSync(`/etc/${name}`, path.join(directory, name));
  }
  for (const name of mountedDirectories) mkdirSync(path.join(directory, name), { recursive: true });
  writeFileSync(path.join(directory, "passwd"), passwd);
  writeFileSync(path.join(directory, "group"), group);
}

/** bwrap's arguments for a prepared `/etc`. */
export function etcArguments(directory: string): string[] {
  const mounts = [...mountedDirectories, ...liveFiles].filter((name) => existsSync(`/etc/${name}`));
  return [
    ...["--ro-bind", directory, "/etc"],
    ...mounts.flatMap((name) => ["--ro-bind-try", `/etc/${name}`, `/etc/${name}`]),
  ];
}
