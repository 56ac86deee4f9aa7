/** Checks the stack's environment and adds the defaults of development. */
import { ConfigError, parseConfig } from "@concierge/core";

export type Environment = Readonly<Record<string, string | undefined>>;

const providerKeys = ["VERCEL_TOKEN", "VERCEL_TEAM_ID", "VERCEL_PROJECT_ID"];

/** Throws a `ConfigError` that names the variable and what it accepts. */
export function checkEnvironment(env: Environment): void {
  parseConfig(env);
  const present = providerKeys.filter((name) => env[name]);
  const missing = providerKeys.filter((name) => !env[name]);
  if (present.length > 0 && missing.length > 0) {
    throw new ConfigError(`${missing.join(", ")} must be set too, or ${present.join(", ")} left out`);
  }
}

/** With keys of the real provider, the local one is not started. */
export function hasRealProvider(env: Environment): boolean {
  return providerKeys.every((name) => env[name]);
}

const agentKeys = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "CURSOR_API_KEY"];

/** A warning for the start: without isolation, nothing keeps agent keys outside of sandboxes. */
export function agentKeyWarning(env: Environment, isIsolated: boolean): string | undefined {
  const present = agentKeys.filter((name) => env[name]);
  if (present.length === 0 || isIsolated || hasRealProvider(env)) return undefined;
  return `${present.join(", ")}: readable by every process on this machine, because sandboxes are NOT ISOLATED`;
}

export interface PrivateAccess {
  /** Every sandbox may reach these: `host:port`. */
  allowPrivate: string[];
  /** Whether a turn's policy may name others. */
  allowNamedPrivate: boolean;
}

/**
 * Which private addresses sandboxes may reach. Runners always call back. With `CONCIERGE_ALLOW_PRIVATE_HOSTS` a turn also
 * reaches its repository and its model's API there, by host and port, and `CONCIERGE_DEV_PRIVATE_HOSTS` adds others.
 */
export function privateAccess(env: Environment, callbackUrl: string): PrivateAccess {
  const { protocol, hostname, port } = new URL(callbackUrl);
  const callback = `${hostname}:${port || (protocol === "https:" ? 443 : 80)}`;
  const more = (env.CONCIERGE_DEV_PRIVATE_HOSTS ?? "").split(",").map((entry) => entry.trim());
  return {
    allowPrivate: [callback, ...more.filter((entry) => entry !== "")],
    allowNamedPrivate: (env.CONCIERGE_ALLOW_PRIVATE_HOSTS || "true") === "true",
  };
}

export interface LocalProvider {
  url: string;
  token: string;
}

/** `sandbox` is the local provider, if it is used. */
export function withDefaults(env: Environment, url: string, sandbox: LocalProvider | undefined): Environment {
  const set = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== ""));
  return {
    CONCIERGE_STAGE: "dev",
    CONCIERGE_DEFAULT_AGENT: "shell",
    CONCIERGE_ADMIN_USER_ID: "dev",
    CONCIERGE_ALLOW_PRIVATE_HOSTS: "true",
    CONCIERGE_URL: url,
    // One developer's tools and tests poll far more often than users do.
    USER_REQUESTS_PER_MINUTE: "1000000",
    USER_REQUESTS_PER_MINUTE_PER_KEY: "1000000",
    ...set,
    ...(sandbox && {
      // The shell's CONCIERGE_URL may name another Concierge. Local sandboxes must call this one.
      CONCIERGE_URL: url,
      VERCEL_SANDBOX_URL: sandbox.url,
      VERCEL_TOKEN: sandbox.token,
      VERCEL_TEAM_ID: "local",
      VERCEL_PROJECT_ID: "local",
    }),
  };
}
