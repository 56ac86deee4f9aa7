import { buildApp } from "fauxqs";
import { connect, ready } from "./connect.ts";
import { type GuardOptions, guard } from "./guard.ts";

const { port, access } = await connect<{ port: number; access: GuardOptions }>();
const app = buildApp({ logger: false });
guard(app.server, access);
// Not `startFauxqs`: it listens on every interface.
const address = await app.listen({ port, host: "127.0.0.1" });
ready(Number(new URL(address).port));
