import { AppError, type EndingDeps, limits, type SessionDeps } from "@concierge/core";
import { bodyLimit } from "hono/body-limit";
import { methodNotAllowed } from "hono/method-not-allowed";
import { secureHeaders } from "hono/secure-headers";
import { requireJson, requireKey, requireToken } from "./auth.ts";
import { identify, learnTurn, observe } from "./observe.ts";
import { answerError } from "./problem.ts";
import { Router } from "./router.ts";
import { registerAdmin } from "./routes/admin.ts";
import { type DocsFiles, registerDocs } from "./routes/docs.ts";
import { registerHealth } from "./routes/health.ts";
import { registerKeys } from "./routes/keys.ts";
import { registerPool } from "./routes/pool.ts";
import { registerRunner } from "./routes/runner.ts";
import { registerSessions } from "./routes/sessions.ts";
import { registerTasks } from "./routes/tasks.ts";
import { registerWebhooks } from "./routes/webhooks.ts";

export function createApp(deps: EndingDeps & SessionDeps, adminKey: string, pages: DocsFiles): Router {
  const app = new Router();

  app.onError(answerError);
  app.notFound((c) => answerError(new AppError("not_found", `There is nothing at ${c.req.path}.`), c));
  app.use(identify, observe(deps), secureHeaders());
  app.use(
    methodNotAllowed({
      app,
      onMethodNotAllowed: (c, methods) => {
        const error = new AppError("method_not_allowed", `${c.req.path} takes ${methods.join(", ")}.`);
        return answerError(error, c, { allow: methods.join(", ") });
      },
    }),
  );
  app.use("/v1/runner/*", requireToken(deps), learnTurn);
  app.use("/v1/*", requireKey(deps, adminKey));
  app.use("/v1/*", bodyLimit({ maxSize: limits.bodyMaxBytes, onError: tooLarge }), requireJson);

  registerHealth(app, deps);
  registerDocs(app, pages);
  registerTasks(app, deps);
  registerSessions(app, deps);
  registerPool(app, deps);
  registerWebhooks(app, deps);
  registerKeys(app, deps);
  registerAdmin(app, deps);
  registerRunner(app, deps);
  return app;
}

function tooLarge(): never {
  throw new AppError("payload_too_large", `A body may have ${limits.bodyMaxBytes} bytes.`);
}
