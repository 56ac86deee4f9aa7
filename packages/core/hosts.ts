import { AppError } from "./errors.ts";

/** Loopback, private, link-local and metadata addresses. */
const privateHost =
  /^(localhost|.*\.localhost|.*\.local|.*\.internal|0\.|10\.|127\.|169\.254\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.|100\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7])\.|\[(::|::1|f[cd]|fe[89ab]|::ffff:))/i;

/** Whether a user's URL is allowed: https only and no private host, except in development. */
export function checkHost(url: string, path: string, allowPrivateHosts: boolean): void {
  if (allowPrivateHosts) return;
  const { protocol, hostname } = new URL(url);
  if (protocol !== "https:") throw refused(path, "must be an https URL");
  if (privateHost.test(`${hostname}.`)) throw refused(path, "must not name a private address");
}

function refused(path: string, message: string): AppError {
  return new AppError("invalid_request", `${path}: ${message}`, { issues: [{ path, message }] });
}
