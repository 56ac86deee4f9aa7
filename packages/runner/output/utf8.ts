/** How many bytes at the end (0 to 3) are the valid start of an incomplete UTF-8 character. */
export function incompleteTail(bytes: Uint8Array): number {
  const maxBack = Math.min(3, bytes.length);
  for (let back = 1; back <= maxBack; back++) {
    const byte = bytes[bytes.length - back] ?? 0;
    if (isContinuation(byte)) continue;
    if (sequenceLength(byte) <= back) return 0;
    return back === 1 || mayFollow(byte, bytes[bytes.length - back + 1] ?? 0) ? back : 0;
  }
  return 0;
}

function isContinuation(byte: number): boolean {
  return byte >= 0x80 && byte <= 0xbf;
}

function sequenceLength(lead: number): number {
  if (lead >= 0xc2 && lead <= 0xdf) return 2;
  if (lead >= 0xe0 && lead <= 0xef) return 3;
  if (lead >= 0xf0 && lead <= 0xf4) return 4;
  return 1;
}

/** Excludes overlong forms, surrogates and code points beyond U+10FFFF. */
function mayFollow(lead: number, second: number): boolean {
  switch (lead) {
    case 0xe0:
      return second >= 0xa0;
    case 0xed:
      return second <= 0x9f;
    case 0xf0:
      return second >= 0x90;
    case 0xf4:
      return second <= 0x8f;
    default:
      return true;
  }
}
