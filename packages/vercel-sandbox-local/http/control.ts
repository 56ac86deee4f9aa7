import { LatencyChange } from "../options.ts";
import type { World } from "../sandbox/world.ts";
import { FaultRequest, type Faults } from "./faults.ts";
import { ok, type Route } from "./routing.ts";

/** Routes under `/_control`, which need the control token. */
export function controlRoutes(world: World, faults: Faults): Route[] {
  return [
    {
      name: "addFault",
      method: "POST",
      path: "/faults",
      async handle(call) {
        faults.add(await call.json(FaultRequest));
        return ok({});
      },
    },
    {
      name: "clearFaults",
      method: "DELETE",
      path: "/faults",
      async handle() {
        faults.clear();
        return ok({});
      },
    },
    {
      name: "setLatency",
      method: "PUT",
      path: "/latency",
      async handle(call) {
        Object.assign(world.latency, await call.json(LatencyChange));
        return ok({ latency: world.latency });
      },
    },
    {
      name: "stats",
      method: "GET",
      path: "/stats",
      async handle() {
        return ok({ routes: faults.counts(), running: world.running.size, isolation: world.isolation });
      },
    },
  ];
}
