/** Shorter values are not masked: they would match by chance. */
const secretMinBytes = 6;
const mask = Buffer.from("***");

export interface Masker {
  add(secret: string): void;
  /** Returns what is safe to show. Holds back an end that may be the beginning of a secret. */
  push(bytes: Buffer): Buffer;
  /**
   * Called when a batch is due. Releases held bytes if they are fewer than `secretMinBytes`, so that a chance match does
   * not delay output. If the secret does continue, its rest is still masked.
   */
  release(): Buffer;
  /** The stream has ended, so the held bytes are not a secret. */
  end(): Buffer;
  heldBytes(): number;
}

/** Replaces secrets in a stream, even if they are split over several pushes. The longest match wins. */
export function createMasker(secrets: readonly string[]): Masker {
  let needles = toNeedles(secrets);
  let held: Buffer = Buffer.alloc(0);
  /** How many of the held bytes were already released. */
  let released = 0;

  function filter(data: Buffer, holdFrom: (from: number) => number): Buffer {
    const parts: Buffer[] = [];
    const find = matcher(data, needles);
    let cursor = 0;
    let hold = holdFrom(0);
    let match = find(0);
    while (match !== undefined && match.start < hold) {
      parts.push(data.subarray(Math.max(cursor, released), Math.max(match.start, released)), mask);
      cursor = match.end;
      if (cursor > hold) hold = holdFrom(cursor);
      match = find(cursor);
    }
    parts.push(data.subarray(Math.max(cursor, released), Math.max(hold, released)));
    held = Buffer.from(data.subarray(hold));
    released = Math.max(0, released - hold);
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
      if (held.length >= secretMinBytes) return Buffer.alloc(0);
      const fresh = held.subarray(released);
      released = held.length;
      return fresh;
    },
    end: () => filter(held, () => held.length),
    heldBytes: () => held.length - released,
  };
}

export function maskBytes(secrets: readonly string[], bytes: Buffer): Buffer {
  const masker = createMasker(secrets);
  return Buffer.concat([masker.push(bytes), masker.end()]);
}

export function maskText(secrets: readonly string[], text: string): string {
  return maskBytes(secrets, Buffer.from(text)).toString();
}

function toNeedles(secrets: readonly string[]): Buffer[] {
  const needles = [...new Set(secrets.flatMap(formsOf))].map((form) => Buffer.from(form));
  return longestFirst(needles.filter((needle) => needle.length >= secretMinBytes));
}

/** A secret as it is, as JSON escapes it, and each of its lines: programs print it in all of these forms. */
function formsOf(secret: string): string[] {
  const lines = secret.split(/\r?\n/).map((line) => line.trim());
  return [secret, ...lines].flatMap((text) => [text, JSON.stringify(text).slice(1, -1)]);
}

function longestFirst(needles: Buffer[]): Buffer[] {
  return needles.sort((a, b) => b.length - a.length);
}

interface Match {
  start: number;
  end: number;
}

/** Finds the first match at or after `from`. `from` may only grow, so that each occurrence is searched for once. */
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

/** Where the longest end of `data` that begins a secret starts, or `data.length`. */
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
