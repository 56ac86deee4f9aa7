import { QueryCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createRoot } from "react-dom/client";
import { Router } from "wouter";
import { useHashLocation } from "wouter/use-hash-location";
import { App } from "./app.tsx";
import { isUnauthorized, SignedInProvider, signOut } from "./signed-in.tsx";

const queries = new QueryClient({
  queryCache: new QueryCache({
    // A key that was revoked or has expired.
    onError: (error) => {
      if (isUnauthorized(error)) signOut("Your key is no longer valid. Sign in with another one.");
    },
  }),
  // The client retries by itself.
  defaultOptions: { queries: { retry: false, staleTime: 2_000 }, mutations: { retry: false } },
});

const root = document.getElementById("app");
if (root) {
  // The route is in the fragment: one static file serves every page, behind any path prefix.
  createRoot(root).render(
    <QueryClientProvider client={queries}>
      <Router hook={useHashLocation}>
        <SignedInProvider>
          <App />
        </SignedInProvider>
      </Router>
    </QueryClientProvider>,
  );
}
