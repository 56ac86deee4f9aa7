import { fuzzRoutes } from "./fuzz-suite.ts";

fuzzRoutes(10_000);
