/** With LONG set the suites try everything; without it, what fits into about a minute. */
export const isLong = process.env.LONG === "1";
export const longTimeoutMs = isLong ? 60 * 60_000 : 240_000;
