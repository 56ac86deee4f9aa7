import { startSandboxApi } from "vercel-sandbox-local";
import { connect, ready } from "./connect.ts";

interface Init {
  dataDir: string;
  port: number;
  /** Opens the control routes to whoever knows it. */
  controlToken?: string;
}

const init = await connect<Init>(close);
const api = await startSandboxApi(init);
ready(Number(new URL(api.url).port));

async function close(): Promise<void> {
  await api.close();
}
