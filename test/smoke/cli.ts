/** `npm run smoke`: tests a deployed stage, and restores the flags if it fails. */
import { parseArgs } from "node:util";
import { rollout } from "./rollout.ts";

const help = `Tries a stage: start, stop and continue with the shell agent: npm run smoke -- --url URL [options]

  --url URL        the stage's address
  --rollout SHARE  set all five flags first: on, off or a percentage such as 10%; when the test fails, or is
                   interrupted, they are put back
  --settle MS      how long to wait for every function to know the flags (default 10000)
  --help           this text

The admin's key is read from CONCIERGE_API_KEY. Exits with 0 when all is well, 1 when it is not, 2 for wrong usage.
`;

const options = {
  url: { type: "string" },
  rollout: { type: "string" },
  settle: { type: "string", default: "10000" },
  help: { type: "boolean", short: "h" },
} as const;

class UsageError extends Error {}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode = error instanceof UsageError ? 2 : 1;
}

async function main(args: string[]): Promise<number> {
  const { url, rollout: to, settle, help: wantsHelp } = read(args);
  if (wantsHelp) {
    process.stdout.write(help);
    return 0;
  }
  const apiKey = process.env.CONCIERGE_API_KEY;
  if (!url || !URL.canParse(url)) throw new UsageError("--url takes the stage's address");
  if (to !== undefined && !/^(on|off|(100|[1-9]?\d)%)$/.test(to))
    throw new UsageError("--rollout takes on, off or a percentage such as 10%");
  if (!/^\d{1,6}$/.test(settle)) throw new UsageError("--settle takes milliseconds");
  if (!apiKey) throw new UsageError("CONCIERGE_API_KEY must be set to the admin's key");

  const interrupted = new AbortController();
  for (const name of ["SIGINT", "SIGTERM"] as const)
    process.once(name, () => interrupted.abort(new Error(`interrupted by ${name}`)));
  const isWell = await rollout({
    url,
    apiKey,
    to,
    settleMs: Number(settle),
    log: (line) => console.log(line),
    signal: interrupted.signal,
  });
  return isWell ? 0 : 1;
}

function read(args: string[]) {
  try {
    return parseArgs({ args, options }).values;
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}
