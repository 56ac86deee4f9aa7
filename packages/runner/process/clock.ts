/** Monotonic milliseconds since the runner's launch. `performance` would take a millisecond to load. */
export function uptimeMs(): number {
  return process.uptime() * 1000;
}
