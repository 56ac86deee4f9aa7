/**
 * The commit that a ref points at, from git's ref advertisement. Undefined only if the whole advertisement was read and
 * the ref is not in it. Throws if the text is not an advertisement, or if it was cut off before the ref.
 */
export function findRef(bytes: Uint8Array, ref: string): string | undefined {
  const packets = packetLines(bytes);
  for (let packet = packets.next(); ; packet = packets.next()) {
    if (packet.done) {
      if (packet.value === "complete") return undefined;
      throw new Error("The git remote's answer was cut off.");
    }
    const [commit, name] = packet.value.split("\0")[0]?.trimEnd().split(" ") ?? [];
    if (name === ref && /^[0-9a-f]{40,64}$/.test(commit ?? "")) return commit;
  }
}

/** Lines with their length in front, in four hexadecimal digits. 0000 ends a part, and must be the last. */
function* packetLines(bytes: Uint8Array): Generator<string, "complete" | "cut off"> {
  const text = Buffer.from(bytes).toString("latin1");
  let at = 0;
  let isEnd = false;
  while (at + 4 <= text.length) {
    const digits = text.slice(at, at + 4);
    if (!/^[0-9a-f]{4}$/i.test(digits)) throw new Error("This is not a git remote's answer.");
    const length = Number.parseInt(digits, 16);
    // The start of a longer name must not be taken for the whole.
    if (at + length > text.length) return "cut off";
    if (length > 4) yield text.slice(at + 4, at + length);
    isEnd = length === 0;
    at += Math.max(length, 4);
  }
  return isEnd && at === text.length ? "complete" : "cut off";
}
