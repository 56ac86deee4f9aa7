import { fuzzRoutes } from "./fuzz-suite.ts";

fuzzRoutes(1_000);
