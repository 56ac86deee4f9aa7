import { AppError, type EndingDeps, limits } from "@concierge/core";
import { createRateLimiter, type RateLimiter } from "@concierge/core/users/rate";
import { bodyLimit } from "hono/body-limit";
import { methodNotAllowed } from "hono/method-not-allowed";
import { secureHeaders } from "hono/secure-headers";
import { Hono } from "hono/tiny";
import type { Env } from "./env.ts";
import { limitRate, requireKey, requireToken } from "./middleware/auth.ts";
import { identify, learnTurn, observe } from "./middleware/observe.ts";
import { DocumentedRouter } from "./openapi/documented-router.ts";
import { answerError } from "./problem.ts";

type Register = (router: DocumentedRouter, deps: EndingDeps) => void;

interface Group {
  prefixes: readonly string[];
  load(): Promise<Register>;
}

/** Each group of routes is loaded by its first request, so a cold start loads only one. */
const groups: readonly Group[] = [
  { prefixes: ["/healthz"], load: async () => (await import("./routes/health.ts")).registerHealth },
  { prefixes: ["/v1/tasks"], load: async () => (await import("./routes/tasks.ts")).registerTasks },
  { prefixes: ["/v1/sessions"], load: async () => (await import("./routes/sessions.ts")).registerSessions },
  { prefixes: ["/v1/runner"], load: async () => (await import("./routes/runner.ts")).registerRunner },
  { prefixes: ["/v1/webhooks"], load: async () => (await import("./routes/webhooks.ts")).registerWebhooks },
  { prefixes: ["/v1/keys", "/v1/me"], load: async () => (await import("./routes/keys.ts")).registerKeys },
  {
    prefixes: ["/v1/users", "/v1/audit"],
    load: async () => (await import("./routes/users.ts")).registerUsers,
  },
  {
    prefixes: ["/v1/flags", "/v1/reap"],
    load: async () => (await import("./routes/admin.ts")).registerAdmin,
  },
  { prefixes: ["/mcp"], load: async () => (await import("./routes/mcp.ts")).registerMcp },
  {
    prefixes: ["/v1/pool", "/v1/costs", "/v1/metrics", "/v1/snapshot"],
    load: async () => (await import("./routes/pool.ts")).registerPool,
  },
];

export function createApp(deps: EndingDeps, adminKey: string, explorerFile: string): Hono<Env> {
  const docs: Group = { prefixes: [], load: loadDocs };
  const countRequest = createRateLimiter(deps);
  const routers = new Map<Group, Promise<DocumentedRouter>>();
  const app = new Hono<Env>();
  app.onError(answerError);
  app.all("*", async (c) => {
    const answer = async () => await (await routerOf(groupOf(c.req.path))).fetch(c.req.raw, c.env);
    const origin = c.req.header("origin");
    if (origin === undefined) return await answer();
    const { allowOrigin } = await import("./origins.ts");
    return await allowOrigin(deps.config, origin, c.req.raw, answer);
  });
  return app;

  function groupOf(requested: string): Group {
    const path = `${requested}/`;
    return groups.find(({ prefixes }) => prefixes.some((one) => path.startsWith(`${one}/`))) ?? docs;
  }

  function routerOf(group: Group): Promise<DocumentedRouter> {
    const router = routers.get(group) ?? load(group);
    routers.set(group, router);
    return router;
  }

  async function load(group: Group): Promise<DocumentedRouter> {
    const register = await group.load();
    const router = createRouter(deps, adminKey, countRequest);
    register(router, deps);
    return router;
  }

  /** The OpenAPI document covers all groups, so it loads them all. */
  async function loadDocs(): Promise<Register> {
    const { registerDocs } = await import("./routes/docs.ts");
    const routes = async () =>
      (await Promise.all(groups.map(routerOf))).flatMap(({ documented }) => documented);
    return (router) => registerDocs(router, explorerFile, routes);
  }
}

/**
 * The runner's routes alone. A path that only looks like the runner's before it is normalized, such as
 * `/v1/runner/../tasks`, is not found here.
 */
export function createRunnerApp(deps: EndingDeps): Hono<Env> {
  const router = createRouter(deps);
  const registered = import("./routes/runner.ts").then(({ registerRunner }) => registerRunner(router, deps));
  const app = new Hono<Env>();
  app.onError(answerError);
  app.all("*", async (c) => {
    await registered;
    if (!c.req.path.startsWith(runnerPrefix)) throw new AppError("not_found", `No route at ${c.req.path}.`);
    return await router.fetch(c.req.raw, c.env);
  });
  return app;
}

const runnerPrefix = "/v1/runner/";

/** A router with the middleware that every request passes through. */
function createRouter(deps: EndingDeps, adminKey = "", countRequest?: RateLimiter): DocumentedRouter {
  const router = new DocumentedRouter();
  router.onError(answerError);
  router.notFound((c) => answerError(new AppError("not_found", `No route at ${c.req.path}.`), c));
  router.use(identify, observe(deps), secureHeaders());
  router.use(
    methodNotAllowed({
      app: router,
      onMethodNotAllowed: (c, methods) => {
        const error = new AppError("method_not_allowed", `${c.req.path} allows ${methods.join(", ")}.`);
        return answerError(error, c, { allow: methods.join(", ") });
      },
    }),
  );
  router.use("/v1/runner/*", requireToken(deps), learnTurn);
  if (countRequest) {
    for (const path of ["/v1/*", "/mcp"])
      router.use(path, requireKey(deps, adminKey), limitRate(countRequest));
  }
  for (const path of ["/v1/*", "/mcp"])
    router.use(path, bodyLimit({ maxSize: limits.bodyMaxBytes, onError: tooLarge }));
  return router;
}

function tooLarge(): never {
  throw new AppError("payload_too_large", `The body may have at most ${limits.bodyMaxBytes} bytes.`);
}
