/**
 * What Lambda does to a function at its time-out: nothing of it goes on. Here other invocations share its process, and
 * that goes on until they are done. So a late invocation sends nothing any more: it can change nothing in the world.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import http from "node:http";
import https from "node:https";
import { syncBuiltinESMExports } from "node:module";

const deadlines = new AsyncLocalStorage<number>();

export function inTime<Result>(deadlineAt: number, work: () => Result): Result {
  return deadlines.run(deadlineAt, work);
}

class LateError extends Error {
  override readonly name = "LateError";
  override readonly message = "the invocation is over its time, and nothing of it would go on in Lambda";
}

function check(): void {
  const deadlineAt = deadlines.getStore();
  if (deadlineAt !== undefined && Date.now() >= deadlineAt) throw new LateError();
}

function onlyInTime<Call extends (...given: never[]) => unknown>(call: Call): Call {
  return new Proxy(call, {
    apply(target, self, given) {
      check();
      return Reflect.apply(target, self, given);
    },
  });
}

http.request = onlyInTime(http.request);
https.request = onlyInTime(https.request);
syncBuiltinESMExports();
globalThis.fetch = onlyInTime(globalThis.fetch);
