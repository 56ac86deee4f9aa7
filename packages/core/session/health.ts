import type { AcquireDeps } from "../deps.ts";
import { ProviderError } from "../errors.ts";
import type { Health, LiveSandbox, Probe } from "../ports.ts";

/** Asks the provider about a sandbox before it is used. Throws if the provider does not answer; nothing changes then. */
export async function probe(
  { provider, flags, metrics, clock }: AcquireDeps,
  userId: string,
  recorded: LiveSandbox,
): Promise<Probe> {
  const { name, sessionId, startedAt, expiresAt } = recorded;
  // With the flag off, the record is trusted until it expires. `mustProbe` expires it when a use found it stopped.
  if (expiresAt > clock.now() && !(await flags.isOn("ENABLE_HEALTH_PROBE", userId))) {
    return { health: "healthy", sandbox: { name, sessionId, startedAt, expiresAt } };
  }
  const found = await provider.probe(name);
  metrics.count(`health_${found.health}`);
  return found;
}

/** The same for display: an unanswered probe is `unknown`, not an error. */
export async function healthOf({ provider, metrics }: AcquireDeps, name: string): Promise<Health> {
  try {
    const { health } = await provider.probe(name);
    metrics.count(`health_${health}`);
    return health;
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error;
    metrics.count("health_unknown");
    return "unknown";
  }
}
