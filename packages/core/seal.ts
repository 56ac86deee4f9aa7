import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createHmac,
  randomBytes,
  timingSafeEqual,
} from "node:crypto";

/**
 * One secret, three uses, each with its own derived key: encryption at rest, runner tokens, webhook signatures. A
 * sealed text is bound to its purpose, so one task's secrets cannot be opened as another's.
 *
 * The secret can hold several keys, separated by commas, newest first. The first one seals and signs. All of them open
 * and verify, so a key can be replaced: put the new one first, and remove the old one once nothing sealed with it is
 * needed any longer.
 */
export interface Sealer {
  seal(plain: string, purpose: string): string;
  open(sealed: string, purpose: string): string;
  /** A token for `{taskId, turn}` until it expires. */
  issueToken(claims: TokenClaims): string;
  /** What a turn's agent gets instead of its key. The same for every launch of the turn. */
  placeholder(turn: Pick<TokenClaims, "taskId" | "turn">): string;
  /** The claims of our own token, even after it expired: the caller compares `expiresAt`. */
  readToken(token: string): TokenClaims | undefined;
  /**
   * The secrets that sign a user's webhooks, one per key, newest first, in the form that receivers' libraries expect.
   * `version` counts how often the user replaced the secret.
   */
  webhookSecrets(userId: string, version?: number): string[];
}

export interface TokenClaims {
  taskId: string;
  turn: number;
  expiresAt: number;
}

interface DerivedKeys {
  id: string;
  sealing: Buffer;
  token: Buffer;
  webhook: Buffer;
}

export function createSealer(secret: string): Sealer {
  const keys = secret.split(",").map((part) => deriveAll(part.trim()));
  const [newest] = keys;
  if (!newest || secret.split(",").some((part) => part.trim() === ""))
    throw new Error("the sealing key is empty");

  return {
    seal(plain, purpose) {
      const nonce = randomBytes(12);
      const cipher = createCipheriv("aes-256-gcm", newest.sealing, nonce).setAAD(Buffer.from(purpose));
      const body = Buffer.concat([cipher.update(plain, "utf8"), cipher.final()]);
      const sealed = Buffer.concat([nonce, cipher.getAuthTag(), body]).toString("base64");
      // With one key there is no choice, and the previous version of this code reads only texts without an id.
      return keys.length === 1 ? sealed : `${newest.id}:${sealed}`;
    },

    open(sealed, purpose) {
      const [id, body] = sealed.includes(":") ? sealed.split(":", 2) : [undefined, sealed];
      const candidates = id === undefined ? keys : keys.filter((key) => key.id === id);
      if (candidates.length === 0) throw new Error(`the sealing key ${id} is missing`);
      return openWithAny(candidates, Buffer.from(body ?? "", "base64"), purpose);
    },

    webhookSecrets: (userId, version = 0) =>
      keys.map(({ webhook }) => {
        const named = version === 0 ? userId : `${userId}#${version}`;
        return `whsec_${sign(webhook, named).toString("base64")}`;
      }),

    issueToken({ taskId, turn, expiresAt }) {
      const claims = `${taskId}.${turn}.${expiresAt}`;
      return `${claims}.${sign(newest.token, claims).toString("base64url")}`;
    },

    placeholder: ({ taskId, turn }) =>
      `concierge-${sign(newest.token, `placeholder ${taskId}.${turn}`).toString("base64url")}`,

    readToken(token) {
      const end = token.lastIndexOf(".");
      const claims = token.slice(0, Math.max(end, 0));
      const given = Buffer.from(token.slice(end + 1), "base64url");
      if (!keys.some((key) => isSignature(sign(key.token, claims), given))) return undefined;

      const [taskId = "", turn, expiresAt] = claims.split(".");
      return { taskId, turn: Number(turn), expiresAt: Number(expiresAt) };
    },
  };
}

function openWithAny(keys: readonly DerivedKeys[], bytes: Buffer, purpose: string): string {
  for (const [at, { sealing }] of keys.entries()) {
    try {
      const decipher = createDecipheriv("aes-256-gcm", sealing, bytes.subarray(0, 12), { authTagLength: 16 })
        .setAAD(Buffer.from(purpose))
        .setAuthTag(bytes.subarray(12, 28));
      return Buffer.concat([decipher.update(bytes.subarray(28)), decipher.final()]).toString("utf8");
    } catch (error) {
      if (at === keys.length - 1) throw error;
    }
  }
  throw new Error("no sealing key");
}

function deriveAll(secret: string): DerivedKeys {
  return {
    id: `k${createHash("sha256").update(`concierge:id:${secret}`).digest("hex").slice(0, 8)}`,
    sealing: derive(secret, "seal"),
    token: derive(secret, "token"),
    webhook: derive(secret, "webhook"),
  };
}

function derive(secret: string, use: string): Buffer {
  return createHmac("sha256", secret).update(`concierge:${use}`).digest();
}

function isSignature(wanted: Buffer, given: Buffer): boolean {
  return given.length === wanted.length && timingSafeEqual(given, wanted);
}

function sign(key: Buffer, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}
