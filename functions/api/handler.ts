import { required } from "@concierge/core";
import { Resource } from "sst";
import { composeDeps } from "../compose.ts";
import { neverShow } from "../telemetry/mask.ts";
import { createApp } from "./app.ts";
import { streamingHandler } from "./lambda.ts";

const pages = {
  css: required(process.env, "SWAGGER_UI_CSS_FILE"),
  script: required(process.env, "SWAGGER_UI_JS_FILE"),
};

const adminKey = Resource.AdminApiKey.value;
neverShow(adminKey);

export const handler = streamingHandler(createApp(await composeDeps(), adminKey, pages));
