const hidden = new Set<string>();
const shown = "***";
const shortest = 8;

/** Never in the log from here on, wherever it comes from. */
export function neverShow(...secrets: readonly (string | undefined)[]): void {
  for (const secret of secrets) {
    if (secret === undefined || secret.length < shortest) continue;
    // As it is, and as it stands in a line of JSON.
    hidden.add(secret).add(JSON.stringify(secret).slice(1, -1));
  }
}

/** Whatever a variable's name says is a secret. */
export function neverShowSecretsOf(env: NodeJS.ProcessEnv): void {
  for (const [name, value] of Object.entries(env)) if (secretName.test(name)) neverShow(value);
}

const secretName = /TOKEN|_KEY$|SECRET|PASSWORD/;

/** Takes out what is known to be secret, and what looks like a credential. */
export function mask(text: string): string {
  let masked = text;
  for (const secret of hidden) masked = masked.replaceAll(secret, shown);
  return masked
    .replace(/\b(Bearer|Basic) +[\w.~+/=-]{8,}/gi, `$1 ${shown}`)
    .replace(/:\/\/[^\s/@"]+@/g, `://${shown}@`);
}
