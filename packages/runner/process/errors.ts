/** How much is reported of what a program printed about its failure. */
export const failureLogMaxLength = 1000;

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
