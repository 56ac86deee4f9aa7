import { catalogue, type Measure, type MetricDefinition, successMetrics, type Term } from "@concierge/core";
import { alarms } from "../../../infra/alarms.ts";
import { account, region } from "../mocks.ts";
import {
  all,
  arnOf,
  type Check,
  differs,
  find,
  isRecord,
  list,
  nameOf,
  type Program,
  read,
  setDiffers,
  statements,
} from "../resources.ts";

/** A metric that an alarm or a widget asks for. */
interface Asked {
  by: string;
  namespace: string;
  name: string;
  dimensions: Record<string, string>;
}

const definitions: Record<string, MetricDefinition> = catalogue;

export const alarmsThere: Check = (program) => [
  ...setDiffers(
    "the program's alarms",
    all(program, "alarm").map(({ name }) => name),
    Object.keys(alarms),
  ),
  ...all(program, "alarm").flatMap((alarm) => [
    ...differs(`${alarm.name}'s name`, read(alarm, "name"), `concierge-${program.stage}-${alarm.name}`),
    ...(["alarmActions", "okActions"] as const).flatMap((actions) =>
      differs(`${alarm.name}'s ${actions}`, read(alarm, actions), [arnOf(find(program, "topic", "Alarms"))]),
    ),
    ...(/ docs\/operations\.md#[a-z-]+$/.test(String(read(alarm, "alarmDescription")))
      ? []
      : [`${alarm.name} does not say what to do`]),
  ]),
];

/** The required threshold of each alarm. */
const bounds: Record<string, [comparison: string, threshold: number, whenMissing: string]> = {
  StopsFail: ["GreaterThanThreshold", 10, "notBreaching"],
  AgentsSilent: ["GreaterThanThreshold", 20, "notBreaching"],
  OrphansFound: ["GreaterThanThreshold", 0, "notBreaching"],
  ReaperLate: ["LessThanThreshold", 1, "breaching"],
  CostHigh: ["GreaterThanThreshold", Math.round(100e6 / 30), "notBreaching"],
};

export const alarmBounds: Check = (program) =>
  Object.entries(bounds).flatMap(([name, bound]) => {
    const alarm = find(program, "alarm", name);
    const is = ["comparisonOperator", "threshold", "treatMissingData"].map((field) => read(alarm, field));
    return differs(`${name}'s bound`, is, bound);
  });

/** CloudWatch has no data for a metric that nobody prints and reports nothing: a wrong name is silent. */
export const metricsKnown: Check = (program) =>
  [...askedByAlarms(program), ...askedByDashboard(program)].flatMap((asked) => misnamed(program, asked));

function misnamed(program: Program, { by, namespace, name, dimensions }: Asked): string[] {
  const resources: Record<string, [dimension: string, type: "queue" | "function" | "table"]> = {
    "AWS/SQS": ["QueueName", "queue"],
    "AWS/Lambda": ["FunctionName", "function"],
    "AWS/DynamoDB": ["TableName", "table"],
  };
  const [dimension = "", type] = resources[namespace] ?? [];
  if (type !== undefined) {
    const known = all(program, type).map((resource) => ({ [dimension]: nameOf(resource) }));
    const isKnown = known.some((one) => differs("", dimensions, one).length === 0);
    return isKnown ? [] : [`${by} asks for ${name} of ${JSON.stringify(dimensions)}, which is not there`];
  }
  const definition = definitions[name];
  if (namespace !== "Concierge" || !definition)
    return [`${by} asks for ${namespace}/${name}: nobody counts it`];
  const { service, ...others } = dimensions;
  return [
    ...differs(`${by}'s service of ${name}`, service, `concierge-${program.stage}`),
    ...Object.entries(others).flatMap(([key, value]) =>
      key === definition.by?.name && definition.by.values?.includes(value)
        ? []
        : [`${by} asks for ${name} by ${key} ${value}: it is never counted so`],
    ),
    ...(Object.keys(others).length > 1 ? [`${by} asks for ${name} by more than it is counted by`] : []),
  ];
}

export const deadLettersWatched: Check = (program) => {
  const dead = new Set(
    all(program, "queue").flatMap((queue) => {
      const policy = read(queue, "redrivePolicy");
      return typeof policy === "string" ? [String(JSON.parse(policy).deadLetterTargetArn)] : [];
    }),
  );
  const watched = askedByAlarms(program).filter(({ name }) => name === "ApproximateNumberOfMessagesVisible");
  return all(program, "queue")
    .filter((queue) => dead.has(arnOf(queue)))
    .filter((queue) => !watched.some(({ dimensions }) => dimensions.QueueName === nameOf(queue)))
    .map(({ name }) => `${name} may fill up, and nobody is told`);
};

/** Each success metric has a widget with all its terms and its target. */
export const targetsDrawn: Check = (program) =>
  Object.entries(successMetrics).flatMap(([name, { measure, target }]) => {
    const isShare = "as" in measure && measure.as === "share";
    const bound = target && ("atLeast" in target ? target.atLeast : target.atMost);
    const value = isShare && bound !== null ? bound * 100 : bound;
    const wanted = termsOf(measure).map(({ metric, is = "" }) => `${metric} ${is}`);
    const isDrawn = widgetsOf(program).some((properties) => {
      const shown = askedIn(properties, "").map(({ name: metric, dimensions: { service: _, ...others } }) =>
        [metric, Object.values(others)[0] ?? ""].join(" "),
      );
      const lines = list(read({ inputs: properties } as never, "annotations.horizontal"));
      const isLine = value === null || lines.some((line) => isRecord(line) && line.value === value);
      return isLine && wanted.every((one) => shown.includes(one));
    });
    return isDrawn ? [] : [`the dashboard does not show ${name} with its target of ${value}`];
  });

export const timelinesShown: Check = (program) => {
  const titles = bodyOf(program).flatMap(({ properties }) =>
    isRecord(properties) && typeof properties.markdown === "string" ? [properties.markdown] : [],
  );
  const wanted = [
    "## Task: creation → execution → completion",
    "## Sandbox: create → health check → resume or recreate → terminate",
    "## Stop: request → lookup → termination → confirmation",
  ];
  return wanted
    .filter((title) => !titles.includes(title))
    .map((title) => `the dashboard has no row ${title}`);
};

export const topicGuarded: Check = (program) => {
  const topic = find(program, "topic", "Alarms");
  const alarm = `arn:aws:cloudwatch:${region}:${account}:alarm:concierge-${program.stage}-*`;
  return [
    ...differs(
      "the topics",
      all(program, "topic").map(({ name }) => name),
      ["Alarms"],
    ),
    ...differs("the topic's key", read(topic, "kmsMasterKeyId"), "alias/concierge-alarms"),
    ...differs("the topic's policy", statements(read(topic, "policy")), [
      {
        Effect: "Allow",
        Action: "sns:Publish",
        Principal: { Service: "cloudwatch.amazonaws.com" },
        Resource: [arnOf(topic)],
        Condition: {
          StringEquals: { "aws:SourceAccount": account },
          ArnLike: { "aws:SourceArn": alarm },
        },
      },
    ]),
  ];
};

export function askedByAlarms(program: Program): Asked[] {
  return all(program, "alarm").flatMap((alarm) =>
    list(read(alarm, "metricQueries")).flatMap((query) => {
      if (!isRecord(query) || !isRecord(query.metric)) return [];
      const { namespace, metricName, dimensions } = query.metric;
      return [
        {
          by: alarm.name,
          namespace: String(namespace),
          name: String(metricName),
          dimensions: dimensions as Record<string, string>,
        },
      ];
    }),
  );
}

export function askedByDashboard(program: Program): Asked[] {
  return widgetsOf(program).flatMap((properties) => askedIn(properties, String(properties.title)));
}

function askedIn(properties: Record<string, unknown>, by: string): Asked[] {
  return list(properties.metrics).flatMap((row) => {
    const [namespace, name, ...rest] = list(row).filter((part): part is string => typeof part === "string");
    if (namespace === undefined || name === undefined) return [];
    const pairs = rest.flatMap((key, at) => (at % 2 === 0 ? [[key, rest[at + 1] ?? ""] as const] : []));
    return [{ by, namespace, name, dimensions: Object.fromEntries(pairs) }];
  });
}

function termsOf(measure: Measure): readonly Term[] {
  return "term" in measure ? [measure.term] : [...measure.part, ...measure.whole];
}

function widgetsOf(program: Program): Record<string, unknown>[] {
  return bodyOf(program).flatMap(({ type, properties }) =>
    type === "metric" && isRecord(properties) ? [properties] : [],
  );
}

function bodyOf(program: Program): Record<string, unknown>[] {
  const body = read(find(program, "dashboard", "Dashboard"), "dashboardBody");
  const { widgets } = typeof body === "string" ? JSON.parse(body) : { widgets: [] };
  return list(widgets).filter(isRecord);
}
