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

/** A warning for the start: local sandboxes see agent keys that the real provider keeps outside. */
export function agentKeyWarning(env: Environment): string | undefined {
  const present = agentKeys.filter((name) => env[name]);
  if (present.length === 0 || hasRealProvider(env)) return undefined;
  return `${present.join(", ")}: visible to processes in local sandboxes; the real provider keeps keys outside`;
}

/** `sandboxUrl` is the local provider, if it is used. */
export function withDefaults(env: Environment, url: string, sandboxUrl: string | undefined): Environment {
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
    ...(sandboxUrl && {
      // The shell's CONCIERGE_URL may name another Concierge. Local sandboxes must call this one.
      CONCIERGE_URL: url,
      VERCEL_SANDBOX_URL: sandboxUrl,
      ...Object.fromEntries(providerKeys.map((name) => [name, "local"])),
    }),
  };
}
