import { required } from "@concierge/core";
import { Resource } from "sst";
import { composeDeps } from "../compose.ts";
import { neverShow } from "../telemetry/mask.ts";
import { createApp } from "./app.ts";
import { streamingHandler } from "./lambda.ts";

const adminKey = Resource.AdminApiKey.value;
neverShow(adminKey);

const explorerFile = required(process.env, "API_EXPLORER_FILE");

export const handler = streamingHandler(createApp(await composeDeps(), adminKey, explorerFile));
