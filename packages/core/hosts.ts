import { isPublicHost } from "@concierge/public-address";
import { AppError } from "./errors.ts";

/** Whether a user's URL is allowed: https only and no private host, except in development. */
export function checkHost(url: string, path: string, allowPrivateHosts: boolean): void {
  if (allowPrivateHosts) return;
  const { protocol, hostname } = new URL(url);
  if (protocol !== "https:") throw refused(path, "must be an https URL");
  if (!isPublicHost(hostname)) throw refused(path, "must not name a private address");
}

function refused(path: string, message: string): AppError {
  return new AppError("invalid_request", `${path}: ${message}`, { issues: [{ path, message }] });
}
