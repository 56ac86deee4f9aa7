import { startSandboxApi } from "vercel-sandbox-local";
import { connect, ownHost, ready } from "../lambda/connect.ts";
import type { PrivateAccess } from "../stack/environment.ts";

interface Init {
  dataDir: string;
  port: number;
  tokens: string[];
  network: PrivateAccess;
  isolation: "auto" | "none";
  /** Enables the control routes. */
  controlToken?: string;
}

const init = await connect<Init>(close);
const api = await startSandboxApi({ ...init, host: ownHost });
ready(Number(new URL(api.url).port));

async function close(): Promise<void> {
  await api.close();
}
