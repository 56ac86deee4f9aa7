import { type Client, ConciergeError, createClient, type Me } from "@concierge/client";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, useContext, useEffect, useMemo, useState } from "react";
import { SignIn } from "./pages/sign-in.tsx";

export type Scope = Me["scopes"][number];

export interface SignedIn {
  client: Client;
  me: Me;
  /** Where the API is: beside this page. */
  url: string;
  may(scope: Scope): boolean;
}

/** In `sessionStorage`, so it lives as long as the tab and no longer. It is never part of a URL. */
const storageKey = "concierge.key";
const changed = new EventTarget();
export const apiUrl: string = new URL(".", document.baseURI.split("#")[0]).href.replace(/\/$/, "");

const Context = createContext<SignedIn | undefined>(undefined);

export function useSignedIn(): SignedIn {
  const value = useContext(Context);
  if (!value) throw new Error("nobody is signed in");
  return value;
}

export function signOut(message = ""): void {
  sessionStorage.removeItem(storageKey);
  changed.dispatchEvent(new CustomEvent("key", { detail: message }));
}

export function isUnauthorized(error: unknown): boolean {
  return error instanceof ConciergeError && error.status === 401;
}

export function SignedInProvider({ children }: { children: ReactNode }) {
  const queries = useQueryClient();
  const [key, setKey] = useState(() => sessionStorage.getItem(storageKey) ?? "");
  const [message, setMessage] = useState("");
  const client = useMemo(() => (key ? createClient({ url: apiUrl, apiKey: key }) : undefined), [key]);
  const me = useQuery({
    queryKey: ["me", key],
    queryFn: ({ signal }) => (client ? client.me({ signal }) : Promise.reject(new Error("no key"))),
    enabled: client !== undefined,
    staleTime: Number.POSITIVE_INFINITY,
  });

  useEffect(() => {
    const onKey = (event: Event) => {
      setMessage(event instanceof CustomEvent ? String(event.detail) : "");
      setKey("");
      queries.clear();
    };
    changed.addEventListener("key", onKey);
    return () => changed.removeEventListener("key", onKey);
  }, [queries]);

  const value = useMemo<SignedIn | undefined>(() => {
    if (!client || !me.data) return undefined;
    const { scopes, admin } = me.data;
    const may = (scope: Scope) => admin || scopes.includes(scope) || scopes.includes("admin");
    return { client, me: me.data, url: apiUrl, may };
  }, [client, me.data]);

  if (value) return <Context value={value}>{children}</Context>;
  const enter = (next: string) => {
    sessionStorage.setItem(storageKey, next);
    setMessage("");
    setKey(next);
  };
  const failure = me.error && !isUnauthorized(me.error) ? me.error.message : message;
  return <SignIn onKey={enter} isChecking={me.isFetching} message={failure} />;
}
