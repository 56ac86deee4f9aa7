import { type LiveSandbox, ProviderError, type SandboxRef } from "@concierge/core";
import { Sandbox, type Session } from "@vercel/sandbox";
import { inTime } from "./budget.ts";
import { asFailure, confirmedAs } from "./errors.ts";
import { vercelApi } from "./signal-launcher.ts";
import type { ProviderOptions } from "./vercel.ts";

export const callTimeoutMs = 30_000;
export const probeTimeoutMs = 10_000;
const cachedSessionsMax = 500;
const settled: ReadonlySet<string> = new Set(["stopped", "failed", "aborted"]);

/** Whether a session in this status runs nothing any more. */
export function isSettled(status: string): boolean {
  return settled.has(status);
}

export interface CallOptions {
  timeoutMs?: number;
  /** A failure of this call comes after the command started. */
  hasBegun?: boolean;
}

type MakeCall<T> = (session: Session, signal: AbortSignal) => Promise<T>;

/** Calls inside one provider session. `gone` and `stopped` are thrown only after a lookup confirmed them. */
export interface InSession {
  call<T>(what: string, make: MakeCall<T>, options?: CallOptions): Promise<T>;
  /** Like `call`, but undefined if the session exists and the requested thing does not. */
  find<T>(what: string, make: MakeCall<T>, options?: CallOptions): Promise<T | undefined>;
}

export type Calls = ReturnType<typeof createCalls>;

/** Every call to the SDK goes through here: bounded in time, classified, and confirmed by a lookup where needed. */
export function createCalls({ baseUrl, timeLeftMs, ...credentials }: ProviderOptions) {
  const common = { ...credentials, ...(baseUrl && { fetch: fetchFrom(baseUrl) }) };
  const sessions = new Map<string, Session>();

  /** A call outside a session. `gone` and `stopped` are unconfirmed here; the caller confirms them. */
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

  /** The sandbox of this name, without resuming it. Undefined only if the provider says that it does not exist. */
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
      if (sessions.size <= cachedSessionsMax) break;
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

  /** A lookup that confirms a claim. If it fails, the state is unknown: always `transient`. */
  async function lookAgain(name: string): Promise<Sandbox | undefined> {
    return await lookUp(name, probeTimeoutMs).catch((error: unknown) => {
      throw error instanceof ProviderError ? confirmedAs("transient", error) : error;
    });
  }

  /** The state of the session. `there` covers every status in which something may still run. */
  function stateOf(
    { sessionId: providerSessionId }: SandboxRef,
    sandbox: Sandbox | undefined,
  ): "gone" | "stopped" | "there" {
    if (!sandbox) return "gone";
    const { sessionId: current, status } = sandbox.currentSession();
    if (current !== providerSessionId || isSettled(status)) return "stopped";
    remember(sandbox);
    return "there";
  }

  /** Throws `gone`, `stopped` or `transient` unless a lookup finds the session. */
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
        const message = `The provider could not ${what}: not found, although the sandbox exists.`;
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
    forget: (providerSessionId: string) => void sessions.delete(providerSessionId),
  };
}

function ended(kind: "gone" | "stopped", { name }: SandboxRef): ProviderError {
  return new ProviderError(kind, `The provider session of the sandbox ${name} has ended.`);
}

/** Sends the SDK's calls to another address. */
function fetchFrom(baseUrl: string): typeof fetch {
  return (input, init) => {
    const url = input instanceof Request ? input.url : String(input);
    return fetch(url.replace(vercelApi, `${baseUrl}/api`), init);
  };
}
