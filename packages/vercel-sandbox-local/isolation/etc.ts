import { copyFileSync, existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";

// Only what programs need. If the API runs as root, its sandboxes could otherwise read files in /etc that only root
// may read.
const copiedFiles = [
  "bash.bashrc",
  "ca-certificates.conf",
  "debian_version",
  "host.conf",
  "inputrc",
  "ld.so.cache",
  "ld.so.conf",
  "locale.alias",
  "localtime",
  "mime.types",
  "os-release",
  "profile",
  "protocols",
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
const passwd = `root:x:0:0:root:/root:/bin/bash
vercel-sandbox:x:1000:1000::/home/vercel-sandbox:/bin/bash
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
`;
// Names are resolved by the sandbox's own DNS server, and by the host behind it.
const hosts = "127.0.0.1 localhost\n::1 ip6-localhost ip6-loopback\n";
const resolvConf = "nameserver 127.0.0.1\noptions timeout:10 attempts:1\n";
const nsswitch = "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n";
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
  writeFileSync(path.join(directory, "hosts"), hosts);
  writeFileSync(path.join(directory, "resolv.conf"), resolvConf);
  writeFileSync(path.join(directory, "nsswitch.conf"), nsswitch);
}

/** bwrap's arguments for a prepared `/etc`. */
export function etcArguments(directory: string): string[] {
  const mounts = mountedDirectories.filter((name) => existsSync(`/etc/${name}`));
  return [
    ...["--ro-bind", directory, "/etc"],
    ...mounts.flatMap((name) => ["--ro-bind-try", `/etc/${name}`, `/etc/${name}`]),
  ];
}
