import { startSandboxApi } from "vercel-sandbox-local";
import { connect, ready } from "../lambda/connect.ts";

interface Init {
  dataDir: string;
  port: number;
  /** Enables the control routes. */
  controlToken?: string;
}

const init = await connect<Init>(close);
const api = await startSandboxApi(init);
ready(Number(new URL(api.url).port));

async function close(): Promise<void> {
  await api.close();
}
