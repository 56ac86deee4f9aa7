/** Reads git's ref advertisement: lines with their length in front, in four hexadecimal digits; 0000 ends a part. */
export function findRef(bytes: Uint8Array, ref: string): string | undefined {
  for (const line of packetLines(bytes)) {
    const [commit, name] = line.split("\0")[0]?.trimEnd().split(" ") ?? [];
    if (name === ref && /^[0-9a-f]{40,64}$/.test(commit ?? "")) return commit;
  }
  return undefined;
}

function* packetLines(bytes: Uint8Array): Generator<string> {
  const text = Buffer.from(bytes).toString("latin1");
  let at = 0;
  while (at + 4 <= text.length) {
    const length = Number.parseInt(text.slice(at, at + 4), 16);
    if (Number.isNaN(length)) throw new Error("This is not a git remote's answer.");
    if (length > 4) yield text.slice(at + 4, at + length);
    at += Math.max(length, 4);
  }
}
