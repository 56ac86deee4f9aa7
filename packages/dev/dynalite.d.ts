declare module "dynalite" {
  import type { Server } from "node:http";

  export default function dynalite(options: {
    /** Directory of the LevelDB database. Without it, data stays in memory. */
    path?: string;
    createTableMs?: number;
    deleteTableMs?: number;
    updateTableMs?: number;
  }): Server;
}
