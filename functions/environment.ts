import { ConfigError } from "@concierge/core";

/** A variable the function can not do without. */
export function required(name: string): string {
  const value = process.env[name];
  if (!value) throw new ConfigError(`${name} must be set`);
  return value;
}
