declare module "dynalite" {
  import type { Server } from "node:http";

  export default function dynalite(options: {
    /** LevelDB's directory; in memory without it. */
    path?: string;
    createTableMs?: number;
    deleteTableMs?: number;
    updateTableMs?: number;
  }): Server;
}
