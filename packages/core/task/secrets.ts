import * as z from "zod/mini";
import type { GitCredential } from "../ports.ts";
import type { Sealer } from "../seal.ts";
import type { Task } from "./schema.ts";

const secretsSchema = z.lazy(() =>
  z.object({
    env: z.optional(z.record(z.string(), z.string())),
    git: z.optional(z.object({ username: z.string(), token: z.string() })),
  }),
);

/** A turn's secrets. They are never stored in clear. */
export interface Secrets {
  env?: Record<string, string> | undefined;
  git?: GitCredential | undefined;
}

export function sealSecrets(sealer: Sealer, taskId: string, { env, git }: Secrets): { sealed?: string } {
  return env || git ? { sealed: sealer.seal(JSON.stringify({ env, git }), taskId) } : {};
}

export function openSecrets(sealer: Sealer, { sealed, id }: Pick<Task, "sealed" | "id">): Secrets {
  return sealed === undefined ? {} : secretsSchema.parse(JSON.parse(sealer.open(sealed, id)));
}
