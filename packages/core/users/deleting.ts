import type { Deps } from "../deps.ts";
import { AppError } from "../errors.ts";

/** Throws `user_deleting` while a user is being deleted. */
export async function refuseDeleting({ store }: Pick<Deps, "store">, userId: string): Promise<void> {
  if (await store.getDeletion(userId))
    throw new AppError("user_deleting", "This user is being deleted. Try again in a few minutes.");
}
