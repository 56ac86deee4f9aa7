const hidden = new Set<string>();
const mark = "***";
/** Shorter secrets would mask ordinary words. */
const minLength = 8;

/** Masks these secrets in every later log line and metric. */
export function neverShow(...secrets: readonly (string | undefined)[]): void {
  for (const secret of secrets) {
    if (secret === undefined || secret.length < minLength) continue;
    // Both as it is and as JSON escapes it.
    hidden.add(secret).add(JSON.stringify(secret).slice(1, -1));
  }
}

/** Masks the values of variables whose names look like a secret's. */
export function neverShowSecretsOf(env: NodeJS.ProcessEnv): void {
  for (const [name, value] of Object.entries(env)) if (secretName.test(name)) neverShow(value);
}

const secretName = /TOKEN|_KEY$|SECRET|PASSWORD|^OTEL_EXPORTER_OTLP_.*HEADERS$/;

/** Replaces known secrets and everything that looks like a credential. */
export function mask(text: string): string {
  let masked = text;
  for (const secret of hidden) masked = masked.replaceAll(secret, mark);
  return masked
    .replace(/\b(Bearer|Basic) +[\w.~+/=-]{8,}/gi, `$1 ${mark}`)
    .replace(/:\/\/[^\s/@"]+@/g, `://${mark}@`);
}
