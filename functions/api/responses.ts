import { type ErrorCode, errorTable } from "@concierge/core";
import type * as z from "zod/mini";
import { problemSchema } from "./problem.ts";

/** A JSON answer, for the OpenAPI document. */
export function json<T extends z.ZodMiniType>(schema: T, description: string) {
  return { description, content: { "application/json": { schema } } };
}

/** The ways a route may refuse, for the OpenAPI document. */
export function problems(...codes: ErrorCode[]) {
  const byStatus = Map.groupBy(codes, (code) => errorTable[code].status);
  return Object.fromEntries(
    [...byStatus].map(([status, group]) => [
      status,
      { description: group.join(", "), content: { "application/problem+json": { schema: problemSchema } } },
    ]),
  );
}

export const security = [{ key: [] }];
