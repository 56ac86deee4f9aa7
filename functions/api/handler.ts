import { streamHandle } from "hono/aws-lambda";
import { Resource } from "sst";
import { composeDeps } from "../compose.ts";
import { neverShow } from "../mask.ts";
import { createApp } from "./app.ts";

const adminKey = Resource.AdminApiKey.value;
neverShow(adminKey);

export const handler = streamHandle(createApp(composeDeps(), adminKey));
