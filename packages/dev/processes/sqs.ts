import { buildApp } from "fauxqs";
import { type GuardOptions, guard } from "../iam/guard.ts";
import { connect, ready } from "../lambda/connect.ts";

const { port, access } = await connect<{ port: number; access: GuardOptions }>();
const app = buildApp({ logger: false });
guard(app.server, access);
// `startFauxqs` would listen on all interfaces.
const address = await app.listen({ port, host: "127.0.0.1" });
ready(Number(new URL(address).port));
