import { streamHandle } from "hono/aws-lambda";
import { Resource } from "sst";
import { composeSealingDeps } from "../compose.ts";
import { createApp } from "./app.ts";

export const handler = streamHandle(createApp(composeSealingDeps(), Resource.AdminApiKey.value));
