import { createHash, randomBytes } from "node:crypto";

const prefixes = { audit: "audit_", task: "task_", key: "key_", claim: "claim_", warm: "" } as const;

const alphabet = "0123456789abcdefghjkmnpqrstvwxyz";

/** Prefixed ids that sort by time: ten characters of milliseconds, sixteen random ones. */
export function createId(kind: keyof typeof prefixes, now: number): string {
  return prefixes[kind] + encodeTime(now) + encodeChance(randomBytes(16));
}

/** The time in an id. */
export function idTime(id: string): number {
  const text = id.slice(id.indexOf("_") + 1, id.indexOf("_") + 11);
  return [...text].reduce((time, character) => time * 32 + Math.max(alphabet.indexOf(character), 0), 0);
}

/** The smallest id of a time, for cursors. */
export function firstIdAt(kind: keyof typeof prefixes, at: number): string {
  return prefixes[kind] + encodeTime(at) + alphabet.charAt(0).repeat(16);
}

export const taskIdPattern = /^task_[0-9a-hjkmnp-tv-z]{26}$/;

/** The session's part of a sandbox name: short, and always the same for the same session. */
export function sessionId(userId: string, sessionKey: string): string {
  return createHash("sha256").update(`${userId}\0${sessionKey}`).digest("hex").slice(0, 20);
}

export function sandboxName(app: string, stage: string, session: string, epoch: number): string {
  return `${app}-${stage}-${session}-${epoch}`;
}

function encodeTime(now: number): string {
  let rest = now;
  let text = "";
  for (let i = 0; i < 10; i++) {
    text = alphabet.charAt(rest % 32) + text;
    rest = Math.floor(rest / 32);
  }
  return text;
}

function encodeChance(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += alphabet.charAt(byte % 32);
  return text;
}
