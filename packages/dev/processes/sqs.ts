import { buildApp } from "fauxqs";
import { type GuardOptions, guard } from "../iam/guard.ts";
import { connect, ownHost, ready } from "../lambda/connect.ts";

const { port, access } = await connect<{ port: number; access: GuardOptions }>();
const app = buildApp({ logger: false });
guard(app.server, access);
// `startFauxqs` would listen on all interfaces.
const address = await app.listen({ port, host: ownHost });
ready(Number(new URL(address).port));
