/** Longer lines are skipped: no agent's event is that long. */
const lineMaxBytes = 8 * 1024 * 1024;

const newline = 0x0a;

/** Splits a stream of bytes into lines. */
export interface Lines {
  push(bytes: Buffer): string[];
  /** The last line, if it has no newline. */
  end(): string[];
}

export function createLines(maxBytes = lineMaxBytes): Lines {
  let parts: Buffer[] = [];
  let length = 0;

  function add(bytes: Buffer): void {
    length += bytes.length;
    if (length <= maxBytes) parts.push(bytes);
    else parts = [];
  }

  function take(): string[] {
    const fits = length <= maxBytes;
    const line = Buffer.concat(parts).toString();
    parts = [];
    length = 0;
    return fits ? [line] : [];
  }

  return {
    push(bytes) {
      const lines: string[] = [];
      let start = 0;
      for (let end = bytes.indexOf(newline); end !== -1; end = bytes.indexOf(newline, start)) {
        add(bytes.subarray(start, end));
        lines.push(...take());
        start = end + 1;
      }
      // Copied, because the caller may reuse the buffer.
      if (start < bytes.length) add(Buffer.from(bytes.subarray(start)));
      return lines;
    },
    end: () => (length === 0 ? [] : take()),
  };
}
