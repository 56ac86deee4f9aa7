import { describeAdapter } from "../testing/adapter-kit.ts";
import { shell } from "./shell.ts";

describeAdapter("shell", { adapter: shell, recordings: [] });
