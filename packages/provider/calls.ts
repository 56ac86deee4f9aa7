import { type LiveSandbox, ProviderError, type SandboxRef } from "@concierge/core";
import { Sandbox, type Session } from "@vercel/sandbox";
import { inTime } from "./budget.ts";
import { asFailure, confirmedAs } from "./errors.ts";
import { vercelApi } from "./tell.ts";
import type { ProviderOptions } from "./vercel.ts";

export const callTimeoutMs = 30_000;
export const probeTimeoutMs = 10_000;
const sessionsKept = 500;
const settled: ReadonlySet<string> = new Set(["stopped", "failed", "aborted"]);

/** Whether nothing of a session in this status runs any more. */
export function isSettled(status: string): boolean {
  return settled.has(status);
}

export interface CallOptions {
  timeoutMs?: number;
  /** A failure of this call comes after the command started. */
  hasBegun?: boolean;
}

type MakeCall<T> = (session: Session, signal: AbortSignal) => Promise<T>;

/** Calls inside one provider session. If one claims that the session has ended, a look-up has confirmed it. */
export interface InSession {
  call<T>(what: string, make: MakeCall<T>, options?: CallOptions): Promise<T>;
  /** As `call`, but undefined if the provider does not know what was asked for although the session is there. */
  find<T>(what: string, make: MakeCall<T>, options?: CallOptions): Promise<T | undefined>;
}

export type Calls = ReturnType<typeof createCalls>;

/** Every call to the SDK goes through here: bounded in time, classified, and confirmed by a look-up where needed. */
export function createCalls({ baseUrl, timeLeftMs, ...credentials }: ProviderOptions) {
  const common = { ...credentials, ...(baseUrl && { fetch: fetchFrom(baseUrl) }) };
  const sessions = new Map<string, Session>();

  /** A call that is not about a session. `gone` and `stopped` are only claims here: the caller confirms them. */
  async function call<T>(
    what: string,
    make: (signal: AbortSignal) => Promise<T>,
    { timeoutMs = callTimeoutMs, hasBegun = false }: CallOptions = {},
  ): Promise<T> {
    try {
      return await inTime({ timeLeftMs }, timeoutMs, make);
    } catch (error) {
      throw asFailure(what, error, { hasBegun });
    }
  }

  /** The sandbox of this name, never resumed. Undefined only if the provider says that there is none. */
  async function lookUp(name: string, timeoutMs = callTimeoutMs): Promise<Sandbox | undefined> {
    try {
      return await call(
        "look up the sandbox",
        (signal) => Sandbox.get({ ...common, name, resume: false, signal }),
        { timeoutMs },
      );
    } catch (error) {
      if (!(error instanceof ProviderError)) throw error;
      if (error.kind === "gone") return undefined;
      throw error.kind === "stopped" ? confirmedAs("transient", error) : error;
    }
  }

  function remember(sandbox: Sandbox): LiveSandbox {
    const session = sandbox.currentSession();
    sessions.set(session.sessionId, session);
    for (const oldest of sessions.keys()) {
      if (sessions.size <= sessionsKept) break;
      sessions.delete(oldest);
    }
    const startedAt = (session.startedAt ?? session.createdAt).getTime();
    return {
      name: sandbox.name,
      sessionId: session.sessionId,
      startedAt,
      expiresAt: startedAt + session.timeout,
    };
  }

  /** A look-up that checks a claim. If it fails nothing is known: that is always `transient`. */
  async function lookAgain(name: string): Promise<Sandbox | undefined> {
    return await lookUp(name, probeTimeoutMs).catch((error: unknown) => {
      throw error instanceof ProviderError ? confirmedAs("transient", error) : error;
    });
  }

  /** How the session is. `there` covers everything that may still run. */
  function stateOf({ sessionId }: SandboxRef, sandbox: Sandbox | undefined): "gone" | "stopped" | "there" {
    if (!sandbox) return "gone";
    const { sessionId: current, status } = sandbox.currentSession();
    if (current !== sessionId || isSettled(status)) return "stopped";
    remember(sandbox);
    return "there";
  }

  /** Throws `gone`, `stopped` or `transient` unless a look-up finds the session. */
  async function assertThere(ref: SandboxRef): Promise<void> {
    const state = stateOf(ref, await lookAgain(ref.name));
    if (state !== "there") throw ended(state, ref);
  }

  async function sessionOf(ref: SandboxRef): Promise<Session> {
    const known = sessions.get(ref.sessionId);
    if (known) return known;
    const state = stateOf(ref, await lookUp(ref.name));
    const session = sessions.get(ref.sessionId);
    if (state !== "there" || !session) throw ended(state === "gone" ? "gone" : "stopped", ref);
    return session;
  }

  async function enter(ref: SandboxRef): Promise<InSession> {
    const session = await sessionOf(ref);

    async function find<T>(what: string, make: MakeCall<T>, options?: CallOptions): Promise<T | undefined> {
      try {
        return await call(what, (signal) => make(session, signal), options);
      } catch (error) {
        if (!(error instanceof ProviderError)) throw error;
        const { kind } = error;
        if (kind !== "gone" && kind !== "stopped") throw error;
        sessions.delete(ref.sessionId);
        const sandbox = await lookAgain(ref.name).catch(() => {
          throw confirmedAs("transient", error);
        });
        const state = stateOf(ref, sandbox);
        if (state !== "there") throw confirmedAs(state, error);
        if (kind === "gone") return undefined;
        throw confirmedAs("transient", error);
      }
    }

    return {
      find,
      async call(what, make, options) {
        const made = await find(what, async (...given) => ({ value: await make(...given) }), options);
        if (made) return made.value;
        const message = `The provider could not ${what}: it does not know it, but the sandbox is there.`;
        throw new ProviderError("transient", message, { hasBegun: options?.hasBegun ?? false });
      },
    };
  }

  return {
    common,
    call,
    enter,
    lookUp,
    remember,
    lookAgain,
    assertThere,
    forget: (sessionId: string) => void sessions.delete(sessionId),
  };
}

function ended(kind: "gone" | "stopped", { name }: SandboxRef): ProviderError {
  return new ProviderError(kind, `The session of the sandbox ${name} has ended.`);
}

/** Sends the SDK's calls to another address, with everything that goes with them. */
function fetchFrom(baseUrl: string): typeof fetch {
  return (input, init) => {
    const url = input instanceof Request ? input.url : String(input);
    return fetch(url.replace(vercelApi, `${baseUrl}/api`), init);
  };
}
