/** Helpers that read a route's types from the generated document. */
import type { components, paths } from "./schema.gen.ts";

export type Task = components["schemas"]["Task"];
export type TaskStatus = Task["status"];
export type StartRequest = components["schemas"]["StartRequest"];
export type ContinueRequest = components["schemas"]["ContinueRequest"];
export type Session = components["schemas"]["Session"];
export type ExecRequest = components["schemas"]["ExecRequest"];
export type ExecResult = components["schemas"]["ExecResult"];
export type Key = components["schemas"]["Key"];
export type Me = components["schemas"]["Me"];
export type KeyRequest = components["schemas"]["KeyRequest"];
export type Pool = components["schemas"]["Pool"];
export type Costs = components["schemas"]["Costs"];
export type Metrics = components["schemas"]["Metrics"];
export type Flags = components["schemas"]["Flags"];
export type FlagsRequest = components["schemas"]["FlagsRequest"];
export type ReapReport = components["schemas"]["ReapReport"];
export type AuditEntry = components["schemas"]["AuditEntry"];
export type UserLimits = components["schemas"]["UserLimits"];
export type UserLimitsRequest = components["schemas"]["UserLimitsRequest"];

export type Path = keyof paths;
export type Method = "get" | "post" | "put" | "delete";

/** The body of a route's successful answers. */
export type Answer<P extends Path, M extends Method> = paths[P][M] extends { responses: infer R }
  ? Json<R[keyof R & (200 | 201 | 202)]>
  : never;

export type Query<P extends Path, M extends Method> = paths[P][M] extends { parameters: { query?: infer Q } }
  ? NonNullable<Q>
  : never;

type Json<R> = R extends { content: { "application/json": infer T } } ? T : never;

const terminalStatuses: readonly TaskStatus[] = ["succeeded", "failed", "stopped", "timed_out"];

/** Whether a turn with this status has ended. */
export function isTerminal(status: string): boolean {
  return (terminalStatuses as readonly string[]).includes(status);
}
