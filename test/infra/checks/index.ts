import type { Check } from "../resources.ts";
import { queues, sources, tables } from "./data.ts";
import { invokers, router, url } from "./exposure.ts";
import { bundles, functions, logs, recursion, schedules } from "./functions.ts";
import {
  alarmBounds,
  alarmsThere,
  deadLettersWatched,
  metricsKnown,
  targetsDrawn,
  timelinesShown,
  topicGuarded,
} from "./observability.ts";
import { boundary, grants, policiesElsewhere, stars, trust } from "./roles.ts";
import { fixedVariables, links, secrets, variables } from "./secrets.ts";
import { protection } from "./stage.ts";

/** What every program must pass, by the sentence it proves. */
export const checks = {
  "roles may do exactly what the topology grants": grants,
  "no policy is outside a role": policiesElsewhere,
  "roles trust the service they are for, and no account": trust,
  "every role carries the boundary": boundary,
  "a wildcard has its reason": stars,
  "tables have their keys, indexes, TTL and recovery": tables,
  "queues are encrypted, have their times and their dead letters": queues,
  "event sources feed functions as the topology says": sources,
  "functions are as the topology says": functions,
  "the bundles that were tested are shipped": bundles,
  "logs are kept as long as the stage says": logs,
  "what feeds itself is allowed to": recursion,
  "the reaper comes once a minute": schedules,
  "the api alone has a URL, and streams": url,
  "nobody reaches the api but the way they should": invokers,
  "the router limits rates and keeps nothing": router,
  "functions find in Resource what they name": links,
  "functions have the variables they name": variables,
  "functions are told their stage and where the api is": fixedVariables,
  "secrets are where they are named, and shown nowhere": secrets,
  "every alarm is there, tells the topic, and says what to do": alarmsThere,
  "alarms go off where they were asked to": alarmBounds,
  "alarms and dashboard ask for metrics that are counted, by what they are counted by": metricsKnown,
  "every dead-letter queue has its alarm": deadLettersWatched,
  "the dashboard shows every success metric with its target": targetsDrawn,
  "the dashboard has its three timelines": timelinesShown,
  "CloudWatch alone may speak to the alarms' topic, which is encrypted": topicGuarded,
  "production is protected, other stages are removable": protection,
} satisfies Record<string, Check>;
