import { composeDeps } from "../compose.ts";
import { createRunnerApp } from "./app.ts";
import { streamingHandler } from "./lambda.ts";

/** Serves the runner's routes alone, with its own concurrency. It has neither the admin's key nor the users' routes. */
export const handler = streamingHandler(createRunnerApp(await composeDeps()));
