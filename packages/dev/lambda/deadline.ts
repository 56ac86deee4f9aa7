/**
 * Lambda freezes a function at its timeout. Here the process continues, because other invocations share it. So requests
 * of a late invocation are refused: after its deadline it cannot change anything outside its process.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import http from "node:http";
import https from "node:https";
import { syncBuiltinESMExports } from "node:module";

const deadlines = new AsyncLocalStorage<number>();

export function withDeadline<Result>(deadlineAt: number, work: () => Result): Result {
  return deadlines.run(deadlineAt, work);
}

class LateError extends Error {
  override readonly name = "LateError";
  override readonly message = "the invocation has timed out, and Lambda would have frozen it";
}

function refuseWhenLate<Call extends (...args: never[]) => unknown>(call: Call): Call {
  return new Proxy(call, {
    apply(target, self, args) {
      const deadlineAt = deadlines.getStore();
      if (deadlineAt !== undefined && Date.now() >= deadlineAt) throw new LateError();
      return Reflect.apply(target, self, args);
    },
  });
}

http.request = refuseWhenLate(http.request);
https.request = refuseWhenLate(https.request);
syncBuiltinESMExports();
globalThis.fetch = refuseWhenLate(globalThis.fetch);
