/**
 * The commit that a ref points to, from git's ref advertisement. Undefined only if the advertisement is complete and does
 * not contain the ref. Throws if the text is not an advertisement, or was truncated before the ref.
 */
export function findRef(bytes: Uint8Array, ref: string): string | undefined {
  const packets = packetLines(bytes);
  for (let packet = packets.next(); ; packet = packets.next()) {
    if (packet.done) {
      if (packet.value === "complete") return undefined;
      throw new Error("The git remote's answer was truncated.");
    }
    const [commit, name] = packet.value.split("\0")[0]?.trimEnd().split(" ") ?? [];
    if (name === ref && /^[0-9a-f]{40,64}$/.test(commit ?? "")) return commit;
  }
}

/** Pkt-lines: each starts with its length in four hexadecimal digits. 0000 ends a section and must come last. */
function* packetLines(bytes: Uint8Array): Generator<string, "complete" | "truncated"> {
  const text = Buffer.from(bytes).toString("latin1");
  let at = 0;
  let isEnd = false;
  while (at + 4 <= text.length) {
    const digits = text.slice(at, at + 4);
    if (!/^[0-9a-f]{4}$/i.test(digits)) throw new Error("Not an answer of a git remote.");
    const length = Number.parseInt(digits, 16);
    // A truncated name must not be taken for a complete one.
    if (at + length > text.length) return "truncated";
    if (length > 4) yield text.slice(at + 4, at + length);
    isEnd = length === 0;
    at += Math.max(length, 4);
  }
  return isEnd && at === text.length ? "complete" : "truncated";
}
