import { createCipheriv, createDecipheriv, createHmac, randomBytes, timingSafeEqual } from "node:crypto";

/**
 * One secret, three uses, each with its own derived key: encryption at rest, runner tokens, webhook signatures. A
 * sealed text is bound to its purpose, so one task's secrets cannot be opened as another's.
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
  /** The secret that signs a user's webhooks, in the form that receivers' libraries expect. */
  webhookSecret(userId: string): string;
}

export interface TokenClaims {
  taskId: string;
  turn: number;
  expiresAt: number;
}

export function createSealer(secret: string): Sealer {
  const sealingKey = derive(secret, "seal");
  const tokenKey = derive(secret, "token");
  const webhookKey = derive(secret, "webhook");

  return {
    seal(plain, purpose) {
      const nonce = randomBytes(12);
      const cipher = createCipheriv("aes-256-gcm", sealingKey, nonce).setAAD(Buffer.from(purpose));
      const body = Buffer.concat([cipher.update(plain, "utf8"), cipher.final()]);
      return Buffer.concat([nonce, cipher.getAuthTag(), body]).toString("base64");
    },

    open(sealed, purpose) {
      const bytes = Buffer.from(sealed, "base64");
      const decipher = createDecipheriv("aes-256-gcm", sealingKey, bytes.subarray(0, 12), {
        authTagLength: 16,
      })
        .setAAD(Buffer.from(purpose))
        .setAuthTag(bytes.subarray(12, 28));
      return Buffer.concat([decipher.update(bytes.subarray(28)), decipher.final()]).toString("utf8");
    },

    webhookSecret: (userId) => `whsec_${sign(webhookKey, userId).toString("base64")}`,

    issueToken({ taskId, turn, expiresAt }) {
      const claims = `${taskId}.${turn}.${expiresAt}`;
      return `${claims}.${sign(tokenKey, claims).toString("base64url")}`;
    },

    placeholder: ({ taskId, turn }) =>
      `concierge-${sign(tokenKey, `placeholder ${taskId}.${turn}`).toString("base64url")}`,

    readToken(token) {
      const end = token.lastIndexOf(".");
      const claims = token.slice(0, Math.max(end, 0));
      const given = Buffer.from(token.slice(end + 1), "base64url");
      const wanted = sign(tokenKey, claims);
      if (given.length !== wanted.length || !timingSafeEqual(given, wanted)) return undefined;

      const [taskId = "", turn, expiresAt] = claims.split(".");
      return { taskId, turn: Number(turn), expiresAt: Number(expiresAt) };
    },
  };
}

function derive(secret: string, use: string): Buffer {
  return createHmac("sha256", secret).update(`concierge:${use}`).digest();
}

function sign(key: Buffer, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}
