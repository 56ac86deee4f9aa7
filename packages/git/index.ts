export { createGitRemote } from "./remote.ts";
