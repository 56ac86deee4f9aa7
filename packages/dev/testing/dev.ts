/** `concierge-dev` with a topology that has every kind of process. */
import { main } from "../cli.ts";
import { fixtureTopology, scheduled, worker } from "./topology.ts";

const provider = ["VERCEL_TOKEN", "VERCEL_TEAM_ID", "VERCEL_PROJECT_ID", "FIXTURE_NOTES"];

await main(
  process.argv.slice(2),
  fixtureTopology({ Worker: { ...worker(), environment: provider }, Reaper: scheduled }),
);
