import { lazy, type ReactNode, Suspense, useEffect, useRef } from "react";
import { Link, Redirect, Route, Switch, useLocation } from "wouter";
import { Tasks } from "./pages/tasks.tsx";
import { type Scope, signOut, useSignedIn } from "./signed-in.tsx";
import { Loading, Offline } from "./ui/parts.tsx";

const TaskPage = lazy(async () => ({ default: (await import("./pages/task.tsx")).TaskPage }));
const Sessions = lazy(async () => ({ default: (await import("./pages/sessions.tsx")).Sessions }));
const PoolAndCost = lazy(async () => ({ default: (await import("./pages/pool.tsx")).PoolAndCost }));
const Health = lazy(async () => ({ default: (await import("./pages/health.tsx")).Health }));
const Admin = lazy(async () => ({ default: (await import("./pages/admin.tsx")).Admin }));

const pages: readonly { path: string; label: string; needs: readonly Scope[] }[] = [
  { path: "/tasks", label: "Tasks", needs: ["tasks:read"] },
  { path: "/sessions", label: "Sessions", needs: ["sessions:read"] },
  { path: "/pool", label: "Pool and cost", needs: ["tasks:read"] },
  { path: "/health", label: "Health", needs: ["tasks:read"] },
  { path: "/admin", label: "Admin", needs: ["keys", "admin"] },
];

export function App() {
  const { may, me } = useSignedIn();
  const [location] = useLocation();
  const main = useRef<HTMLElement>(null);
  const allowed = pages.filter(({ needs }) => needs.some(may));
  const here = pages.find(({ path }) => location.startsWith(path));

  useEffect(() => {
    document.title = here ? `${here.label} · Concierge` : "Concierge";
  }, [here]);

  return (
    <div className="shell">
      <button type="button" className="skip" onClick={() => main.current?.focus()}>
        Skip to content
      </button>
      <header className="top">
        <Link href="/tasks" className="brand">
          <span className="mark" aria-hidden="true" />
          Concierge
        </Link>
        <nav aria-label="Pages">
          {allowed.map(({ path, label }) => (
            <Link key={path} href={path} aria-current={path === here?.path ? "page" : undefined}>
              {label}
            </Link>
          ))}
        </nav>
        <div className="who">
          <span title={`Scopes: ${me.scopes.join(", ") || "none"}`}>
            <span className="who-name">{me.userId}</span>
            {me.admin && <span className="badge">admin</span>}
          </span>
          <button type="button" className="quiet" onClick={() => signOut()}>
            Sign out
          </button>
        </div>
      </header>
      <Offline />
      <main id="content" ref={main} tabIndex={-1}>
        <Suspense fallback={<Loading what="the page" />}>
          <Switch>
            <Page path="/tasks" needs={["tasks:read"]}>
              <Tasks />
            </Page>
            <Route path="/tasks/:id">
              {({ id }) => (may("tasks:read") ? <TaskPage key={id} id={id} /> : <Missing />)}
            </Route>
            <Page path="/sessions" needs={["sessions:read"]}>
              <Sessions />
            </Page>
            <Page path="/pool" needs={["tasks:read"]}>
              <PoolAndCost />
            </Page>
            <Page path="/health" needs={["tasks:read"]}>
              <Health />
            </Page>
            <Page path="/admin" needs={["keys", "admin"]}>
              <Admin />
            </Page>
            <Route>
              <Redirect to={allowed[0]?.path ?? "/tasks"} replace />
            </Route>
          </Switch>
        </Suspense>
      </main>
    </div>
  );
}

function Page({ path, needs, children }: { path: string; needs: readonly Scope[]; children: ReactNode }) {
  const { may } = useSignedIn();
  return <Route path={path}>{needs.some(may) ? children : <Missing />}</Route>;
}

function Missing() {
  const { me } = useSignedIn();
  return (
    <section className="empty">
      <h1>Your key cannot open this page</h1>
      <p>
        It has the scopes <code>{me.scopes.join(", ") || "none"}</code>. Ask an admin for a key with more, or
        sign in with another one.
      </p>
    </section>
  );
}
