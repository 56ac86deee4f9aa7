import { MAX_TEXT_LENGTH } from "./protocol.ts";

/** A UTF-16 unit takes at most three bytes of UTF-8. */
const KEPT_BYTES = MAX_TEXT_LENGTH * 3;

/** The end of a stream, as text. */
export function createTail(): { add(bytes: Buffer): void; text(): string } {
  let kept: Buffer = Buffer.alloc(0);
  return {
    add(bytes) {
      const recent = bytes.subarray(-KEPT_BYTES);
      kept = Buffer.concat([kept.subarray(Math.max(0, kept.length + recent.length - KEPT_BYTES)), recent]);
    },
    text() {
      let start = 0;
      // Only where the beginning was cut off can it be in the middle of a character.
      if (kept.length === KEPT_BYTES) while (start < 3 && isContinuation(kept[start])) start++;
      const text = kept.toString("utf8", start).slice(-MAX_TEXT_LENGTH);
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
