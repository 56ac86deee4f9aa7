/** Monotonic, and 0 when the runner was launched. So is `performance`, which takes a millisecond to load. */
export function uptimeMs(): number {
  return process.uptime() * 1000;
}
