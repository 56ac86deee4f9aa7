/** With LONG=1 the suites try everything; without it, as much as fits into a minute or so. */
export const isLong = process.env.LONG === "1";
export const longTimeoutMs = isLong ? 60 * 60_000 : 240_000;
