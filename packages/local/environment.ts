/** The stack's own environment: checked once at the start, with what development sets by itself. */
import { ConfigError, parseConfig } from "@concierge/core";

export type Environment = Readonly<Record<string, string | undefined>>;

const PROVIDER_KEYS = ["VERCEL_TOKEN", "VERCEL_TEAM_ID", "VERCEL_PROJECT_ID"];

/** Every value that does not parse ends here, with one line that names the variable and what it takes. */
export function checkEnvironment(env: Environment): void {
  parseConfig(env);
  const given = PROVIDER_KEYS.filter((name) => env[name]);
  const missing = PROVIDER_KEYS.filter((name) => !env[name]);
  if (given.length > 0 && missing.length > 0) {
    throw new ConfigError(`${missing.join(", ")} must be set too, or ${given.join(", ")} left out`);
  }
}

/** With keys of the real provider the local one stays away. */
export function hasRealProvider(env: Environment): boolean {
  return PROVIDER_KEYS.every((name) => env[name]);
}

const AGENT_KEYS = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "CURSOR_API_KEY"];

/** Said once, at the start: what is kept outside a microVM is inside a sandbox here. */
export function aboutKeys(env: Environment): string | undefined {
  const given = AGENT_KEYS.filter((name) => env[name]);
  if (given.length === 0 || hasRealProvider(env)) return undefined;
  return `${given.join(", ")}: the agent's process in its sandbox has it here; the real provider keeps it outside`;
}

/** `sandboxUrl` is where the local provider is, when that is the one. */
export function withDefaults(env: Environment, url: string, sandboxUrl: string | undefined): Environment {
  const set = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== ""));
  return {
    CONCIERGE_STAGE: "dev",
    CONCIERGE_DEFAULT_AGENT: "shell",
    CONCIERGE_ADMIN_USER_ID: "dev",
    CONCIERGE_ALLOW_PRIVATE_HOSTS: "true",
    CONCIERGE_URL: url,
    ...set,
    ...(sandboxUrl && {
      // What a shell is set to for the command line may be another Concierge; only sandboxes elsewhere need
      // another name for this one.
      CONCIERGE_URL: url,
      VERCEL_SANDBOX_URL: sandboxUrl,
      ...Object.fromEntries(PROVIDER_KEYS.map((name) => [name, "local"])),
    }),
  };
}
