export const MIN_SECRET_BYTES = 6;
export const MASK = Buffer.from("***");

export interface Masker {
  /** From here on this is a secret, too. */
  add(secret: string): void;
  /** What may be shown of the stream so far. An end that may be the beginning of a secret is held back. */
  push(bytes: Buffer): Buffer;
  /**
   * Called when the batch is due: lets the held bytes go as long as they are fewer than `MIN_SECRET_BYTES`, so that
   * chance does not delay output. They are remembered: if the secret goes on after all, its rest is masked.
   */
  release(): Buffer;
  /** The stream has ended: what is held is no secret. */
  end(): Buffer;
  /** Bytes held back and not shown. */
  heldBytes(): number;
}

/** Replaces each secret in a stream of bytes, also where it is cut over several pushes. The longest of several wins. */
export function createMasker(secrets: readonly string[]): Masker {
  let needles = toNeedles(secrets);
  let held: Buffer = Buffer.alloc(0);
  /** How many of the held bytes `release` has let go. */
  let shown = 0;

  function filter(data: Buffer, holdFrom: (from: number) => number): Buffer {
    const parts: Buffer[] = [];
    const find = matcher(data, needles);
    let cursor = 0;
    let hold = holdFrom(0);
    let match = find(0);
    while (match !== undefined && match.start < hold) {
      parts.push(data.subarray(Math.max(cursor, shown), Math.max(match.start, shown)), MASK);
      cursor = match.end;
      if (cursor > hold) hold = holdFrom(cursor);
      match = find(cursor);
    }
    parts.push(data.subarray(Math.max(cursor, shown), Math.max(hold, shown)));
    held = Buffer.from(data.subarray(hold));
    shown = Math.max(0, shown - hold);
    return parts.length === 1 ? (parts[0] ?? held) : Buffer.concat(parts);
  }

  return {
    add(secret) {
      needles = longestFirst([...needles, ...toNeedles([secret])]);
    },
    push(bytes) {
      const data = held.length === 0 ? bytes : Buffer.concat([held, bytes]);
      return filter(data, (from) => partialSecretAt(data, needles, from));
    },
    release() {
      if (held.length >= MIN_SECRET_BYTES) return Buffer.alloc(0);
      const released = held.subarray(shown);
      shown = held.length;
      return released;
    },
    end: () => filter(held, () => held.length),
    heldBytes: () => held.length - shown,
  };
}

export function maskText(secrets: readonly string[], text: string): string {
  const masker = createMasker(secrets);
  return `${masker.push(Buffer.from(text))}${masker.end()}`;
}

function toNeedles(secrets: readonly string[]): Buffer[] {
  const needles = [...new Set(secrets)].map((secret) => Buffer.from(secret));
  return longestFirst(needles.filter((needle) => needle.length >= MIN_SECRET_BYTES));
}

function longestFirst(needles: Buffer[]): Buffer[] {
  return needles.sort((a, b) => b.length - a.length);
}

interface Match {
  start: number;
  end: number;
}

/** Finds the first match at or after `from`, which only grows: each needle is looked for once per occurrence. */
function matcher(data: Buffer, needles: readonly Buffer[]): (from: number) => Match | undefined {
  const upcoming = needles.map((needle) => ({ needle, at: -1 }));
  return (from) => {
    let best: Match | undefined;
    for (const entry of upcoming) {
      if (entry.at < from) {
        const at = data.indexOf(entry.needle, from);
        entry.at = at === -1 ? Number.POSITIVE_INFINITY : at;
      }
      if (entry.at < (best?.start ?? Number.POSITIVE_INFINITY)) {
        best = { start: entry.at, end: entry.at + entry.needle.length };
      }
    }
    return best;
  };
}

/** Where the longest end of `data` that is the beginning of a secret starts; `data.length` where there is none. */
function partialSecretAt(data: Buffer, needles: readonly Buffer[], from: number): number {
  let earliest = data.length;
  for (const needle of needles) {
    const first = needle[0] ?? 0;
    let at = data.indexOf(first, Math.max(from, data.length - needle.length + 1));
    while (at !== -1 && at < earliest) {
      if (data.subarray(at).equals(needle.subarray(0, data.length - at))) earliest = at;
      at = data.indexOf(first, at + 1);
    }
  }
  return earliest;
}
