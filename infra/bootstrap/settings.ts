import type { App } from "aws-cdk-lib";
import * as z from "zod";

const ownerAndName = "must be owner/name";

/** Given as context (`-c name=value`). */
const schema = z.object({
  /** The repository on GitHub that may deploy. */
  repository: z
    .string({ error: ownerAndName })
    .regex(/^[A-Za-z0-9-]{1,39}\/[A-Za-z0-9._-]{1,100}$/, { error: ownerAndName }),
  alertEmail: z.email({ error: "must be the address that gets cost alerts" }),
  /** The stages that are deployed to this account. */
  stages: z
    .string()
    .default("dev,production")
    .transform((text) => text.split(","))
    .pipe(
      z.array(
        z.enum(["dev", "production"], { error: "must be dev, production, or both separated by a comma" }),
      ),
    ),
});

export class SettingsError extends Error {}

export type Settings = z.infer<typeof schema>;

export function readSettings(app: App): Settings {
  const context = Object.fromEntries(
    Object.keys(schema.shape).map((name) => [name, app.node.tryGetContext(name) as unknown]),
  );
  const parsed = schema.safeParse(context);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new SettingsError(`-c ${String(issue?.path[0])}=… ${issue?.message}`);
}
