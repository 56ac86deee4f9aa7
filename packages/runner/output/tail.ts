import { resultTextMaxLength } from "@concierge/protocol";

/** A UTF-16 unit takes at most three bytes of UTF-8. */
const keptBytes = resultTextMaxLength * 3;

/** Keeps the end of a stream as text. */
export function createTail(): { add(bytes: Buffer): void; text(): string } {
  let kept: Buffer = Buffer.alloc(0);
  return {
    add(bytes) {
      const recent = bytes.subarray(-keptBytes);
      kept = Buffer.concat([kept.subarray(Math.max(0, kept.length + recent.length - keptBytes)), recent]);
    },
    text() {
      let start = 0;
      // A full buffer may begin in the middle of a character.
      if (kept.length === keptBytes) while (start < 3 && isContinuation(kept[start])) start++;
      const text = kept.toString("utf8", start).slice(-resultTextMaxLength);
      return isLowSurrogate(text.charCodeAt(0)) ? text.slice(1) : text;
    },
  };
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x80 && byte <= 0xbf;
}

function isLowSurrogate(unit: number): boolean {
  return unit >= 0xdc00 && unit <= 0xdfff;
}
