import { createHash, randomBytes } from "node:crypto";

const prefixes = { task: "task_", key: "key_", claim: "claim_", warm: "" } as const;

const alphabet = "0123456789abcdefghjkmnpqrstvwxyz";

/** Prefixed ids that sort by time: ten characters of milliseconds, sixteen random ones. */
export function createId(kind: keyof typeof prefixes, now: number): string {
  return prefixes[kind] + encodeTime(now) + encodeChance(randomBytes(16));
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
