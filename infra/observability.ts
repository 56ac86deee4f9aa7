/** Alarms, their topic and the dashboard, from `alarms.ts` and `dashboard.ts`. */
import { type Alarm, alarms } from "./alarms.ts";
import { dashboard } from "./dashboard.ts";
import { dashboardBody } from "./dashboard-body.ts";
import { functions } from "./functions.ts";
import { identify, type Query, type Source } from "./measures.ts";
import { deadLetterQueues, queues } from "./queues.ts";
import { accountId } from "./roles.ts";
import { tables } from "./storage.ts";

const region = aws.getRegionOutput({}).region;
const named = (what: string) => `concierge-${$app.stage}-${what}`;

const names = {
  stage: $app.stage,
  queues: {
    ...mapped(queues, (queue) => queue.nodes.queue.name),
    ...Object.fromEntries(
      Object.entries(deadLetterQueues).map(([name, dlq]) => [`${name}Dlq`, dlq.nodes.queue.name]),
    ),
  },
  functions: mapped(functions, (fn) => fn.name),
  tables: mapped(tables, (table) => table.name),
};

/** The bootstrap stack's key. CloudWatch cannot use AWS's managed key for topics. */
const key = "alias/concierge-alarms";

/** Operators subscribe to it. Only CloudWatch may publish, for alarms of this stage. */
export const topic = new aws.sns.Topic("Alarms", {
  name: named("alarms"),
  kmsMasterKeyId: key,
  policy: $resolve([region, accountId]).apply(([where, account]) =>
    JSON.stringify({
      Version: "2012-10-17",
      Statement: [
        {
          Effect: "Allow",
          Action: "sns:Publish",
          Principal: { Service: "cloudwatch.amazonaws.com" },
          Resource: [`arn:aws:sns:${where}:${account}:${named("alarms")}`],
          Condition: {
            StringEquals: { "aws:SourceAccount": account },
            ArnLike: { "aws:SourceArn": `arn:aws:cloudwatch:${where}:${account}:alarm:${named("*")}` },
          },
        },
      ],
    }),
  ),
});

for (const [name, alarm] of Object.entries(alarms)) createAlarm(name, alarm);

new aws.cloudwatch.Dashboard("Dashboard", {
  dashboardName: named("overview"),
  dashboardBody: $jsonStringify(dashboardBody(dashboard, names, region)),
});

function createAlarm(name: string, alarm: Alarm) {
  const { says, see, when, periodMs, periods, bad, silence } = alarm;
  return new aws.cloudwatch.MetricAlarm(name, {
    name: named(name),
    alarmDescription: `${says} What to do: docs/operations.md#${see}`,
    ...("above" in when
      ? { comparisonOperator: "GreaterThanThreshold", threshold: when.above }
      : { comparisonOperator: "LessThanThreshold", threshold: when.below }),
    evaluationPeriods: periods,
    datapointsToAlarm: bad,
    treatMissingData: silence === "bad" ? "breaching" : "notBreaching",
    alarmActions: [topic.arn],
    okActions: [topic.arn],
    metricQueries: queriesOf(alarm.query, periodMs / 1000),
  });
}

function queriesOf(query: Query, period: number) {
  if (!("sources" in query)) return [{ id: "value", returnData: true, metric: metricOf(query, period) }];
  return [
    { id: "result", expression: query.expression, label: "result", returnData: true },
    ...Object.entries(query.sources).map(([id, source]) => ({
      id,
      returnData: false,
      metric: metricOf(source, period),
    })),
  ];
}

function metricOf({ watched, statistic }: Source, period: number) {
  return { ...identify(watched, names), stat: statistic, period };
}

function mapped<From, To>(record: Record<string, From>, to: (value: From) => To): Record<string, To> {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, to(value)]));
}
