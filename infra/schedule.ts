import { functions } from "./functions.ts";
import { schedulerTrust } from "./roles.ts";
import { type FunctionDefinition, topology } from "./topology.ts";

const definitions: [string, FunctionDefinition][] = Object.entries(topology.functions);

for (const [name, { scheduleEveryMs }] of definitions) {
  const fn = functions[name];
  if (!fn || scheduleEveryMs === undefined) continue;
  new sst.aws.CronV2(`${name}Schedule`, {
    schedule: rate(scheduleEveryMs),
    function: fn.arn,
    transform: { role: { assumeRolePolicy: schedulerTrust } },
  });
}

function rate(everyMs: number): `rate(${string})` {
  const minutes = everyMs / 60_000;
  if (!Number.isInteger(minutes))
    throw new Error(`a schedule must be a whole number of minutes, not ${everyMs} ms`);
  return minutes === 1 ? "rate(1 minute)" : `rate(${minutes} minutes)`;
}
