import { streamHandle } from "hono/aws-lambda";
import { Resource } from "sst";
import { composeDeps } from "../compose.ts";
import { createApp } from "./app.ts";

export const handler = streamHandle(createApp(composeDeps(), Resource.AdminApiKey.value));
