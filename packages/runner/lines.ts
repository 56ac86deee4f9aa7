/** What is longer is skipped: no event is. */
export const MAX_LINE_BYTES = 8 * 1024 * 1024;

const NEWLINE = 0x0a;

/** Whole lines out of a stream of bytes, however it is cut. */
export interface Lines {
  push(bytes: Buffer): string[];
  /** The last line, where it has no end. */
  end(): string[];
}

export function createLines(maxBytes = MAX_LINE_BYTES): Lines {
  let parts: Buffer[] = [];
  let length = 0;

  function add(bytes: Buffer): void {
    length += bytes.length;
    if (length <= maxBytes) parts.push(bytes);
    else parts = [];
  }

  function take(): string[] {
    const isWhole = length <= maxBytes;
    const line = Buffer.concat(parts).toString();
    parts = [];
    length = 0;
    return isWhole ? [line] : [];
  }

  return {
    push(bytes) {
      const lines: string[] = [];
      let start = 0;
      for (let end = bytes.indexOf(NEWLINE); end !== -1; end = bytes.indexOf(NEWLINE, start)) {
        add(bytes.subarray(start, end));
        lines.push(...take());
        start = end + 1;
      }
      // A copy: who read these bytes may use their memory again.
      if (start < bytes.length) add(Buffer.from(bytes.subarray(start)));
      return lines;
    },
    end: () => (length === 0 ? [] : take()),
  };
}
