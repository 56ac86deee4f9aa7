import { shell } from "./shell.ts";
import { describeAdapter } from "./testkit.ts";

describeAdapter("shell", { adapter: shell, recordings: [] });
