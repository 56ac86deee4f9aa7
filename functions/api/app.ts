import { AppError, type EndingDeps, limits, type SessionDeps } from "@concierge/core";
import { bodyLimit } from "hono/body-limit";
import { methodNotAllowed } from "hono/method-not-allowed";
import { secureHeaders } from "hono/secure-headers";
import { Hono } from "hono/tiny";
import { requireKey, requireToken } from "./auth.ts";
import type { Env } from "./env.ts";
import { identify, learnTurn, observe } from "./observe.ts";
import { answerError } from "./problem.ts";
import { Router } from "./router.ts";
import type { DocsFiles } from "./routes/docs.ts";

type AppDeps = EndingDeps & SessionDeps;
type Register = (router: Router, deps: AppDeps) => void;

interface Group {
  /** What its paths begin with. */
  at: readonly string[];
  load(): Promise<Register>;
}

/** A group of routes is loaded by the first request for it: a cold start pays for one. */
const groups: readonly Group[] = [
  { at: ["/healthz"], load: async () => (await import("./routes/health.ts")).registerHealth },
  { at: ["/v1/tasks"], load: async () => (await import("./routes/tasks.ts")).registerTasks },
  { at: ["/v1/sessions"], load: async () => (await import("./routes/sessions.ts")).registerSessions },
  { at: ["/v1/runner"], load: async () => (await import("./routes/runner.ts")).registerRunner },
  { at: ["/v1/webhooks"], load: async () => (await import("./routes/webhooks.ts")).registerWebhooks },
  { at: ["/v1/keys"], load: async () => (await import("./routes/keys.ts")).registerKeys },
  { at: ["/v1/flags", "/v1/reap"], load: async () => (await import("./routes/admin.ts")).registerAdmin },
  {
    at: ["/v1/pool", "/v1/costs", "/v1/snapshot"],
    load: async () => (await import("./routes/pool.ts")).registerPool,
  },
];

export function createApp(deps: AppDeps, adminKey: string, pages: DocsFiles): Hono<Env> {
  const docs: Group = { at: [], load: loadDocs };
  const routers = new Map<Group, Promise<Router>>();
  const app = new Hono<Env>();
  app.onError(answerError);
  app.all("*", async (c) => {
    const group = groups.find(({ at }) => at.some((start) => c.req.path.startsWith(start))) ?? docs;
    return await (await routerOf(group)).fetch(c.req.raw, c.env);
  });
  return app;

  function routerOf(group: Group): Promise<Router> {
    const router = routers.get(group) ?? load(group);
    routers.set(group, router);
    return router;
  }

  async function load(group: Group): Promise<Router> {
    const register = await group.load();
    const router = createRouter(deps, adminKey);
    register(router, deps);
    return router;
  }

  /** The contract is of all groups, so it loads them all. */
  async function loadDocs(): Promise<Register> {
    const { registerDocs } = await import("./routes/docs.ts");
    const routes = async () =>
      (await Promise.all(groups.map(routerOf))).flatMap(({ described }) => described);
    return (router) => registerDocs(router, pages, routes);
  }
}

/** What every request goes through, whatever it is for. */
function createRouter(deps: AppDeps, adminKey: string): Router {
  const router = new Router();
  router.onError(answerError);
  router.notFound((c) => answerError(new AppError("not_found", `There is nothing at ${c.req.path}.`), c));
  router.use(identify, observe(deps), secureHeaders());
  router.use(
    methodNotAllowed({
      app: router,
      onMethodNotAllowed: (c, methods) => {
        const error = new AppError("method_not_allowed", `${c.req.path} takes ${methods.join(", ")}.`);
        return answerError(error, c, { allow: methods.join(", ") });
      },
    }),
  );
  router.use("/v1/runner/*", requireToken(deps), learnTurn);
  router.use("/v1/*", requireKey(deps, adminKey));
  router.use("/v1/*", bodyLimit({ maxSize: limits.bodyMaxBytes, onError: tooLarge }));
  return router;
}

function tooLarge(): never {
  throw new AppError("payload_too_large", `A body may have ${limits.bodyMaxBytes} bytes.`);
}
