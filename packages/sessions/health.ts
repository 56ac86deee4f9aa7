import { type Health, type LiveSandbox, type Probe, ProviderError, type RoomDeps } from "@concierge/core";

/** Asks the provider before a sandbox is trusted. A provider that does not answer is an error, and everything is kept. */
export async function probe(
  { provider, flags, metrics, clock }: RoomDeps,
  userId: string,
  known: LiveSandbox,
): Promise<Probe> {
  const { name, sessionId, startedAt, expiresAt } = known;
  // Switched off, a record is trusted until its time is over, or until a use of the sandbox said that it had stopped.
  if (expiresAt > clock.now() && !(await flags.isOn("ENABLE_HEALTH_PROBE", userId))) {
    return { health: "healthy", sandbox: { name, sessionId, startedAt, expiresAt } };
  }
  const found = await provider.probe(name);
  metrics.count(`health_${found.health}`);
  return found;
}

/** The same as a word, for those who only want to know. */
export async function healthOf({ provider, metrics }: RoomDeps, name: string): Promise<Health> {
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
