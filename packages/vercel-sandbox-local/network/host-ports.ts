import { readFileSync } from "node:fs";

const listening = "0A";
const reachableAddresses = new Set([
  "0100007F", // 127.0.0.1
  "00000000", // 0.0.0.0
  "00000000000000000000000000000000", // ::
]);

/** The ports of this machine that a connection to 127.0.0.1 can reach. */
export function loopbackPorts(): number[] {
  const ports = new Set<number>();
  for (const file of ["/proc/net/tcp", "/proc/net/tcp6"]) {
    for (const line of read(file).split("\n")) {
      const [, local = "", , state] = line.trim().split(/\s+/, 4);
      const [address = "", port = ""] = local.split(":");
      if (state === listening && reachableAddresses.has(address)) ports.add(Number.parseInt(port, 16));
    }
  }
  return [...ports];
}

function read(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
