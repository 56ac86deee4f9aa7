import { buildApp } from "fauxqs";
import { connect, ready } from "./connect.ts";

const { port } = await connect<{ port: number }>();
// Not `startFauxqs`: it listens on every interface.
const address = await buildApp({ logger: false }).listen({ port, host: "127.0.0.1" });
ready(Number(new URL(address).port));
