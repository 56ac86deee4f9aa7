import { readFileSync } from "node:fs";
import { App } from "aws-cdk-lib";
import { Match, Template } from "aws-cdk-lib/assertions";
import { describe, expect, it, vi } from "vitest";
import { alarms } from "../../infra/alarms.ts";
import { readSettings } from "../../infra/bootstrap/settings.ts";
import { BootstrapStack } from "../../infra/bootstrap/stack.ts";
import { checks } from "./checks/index.ts";
import type { Mutation } from "./program.ts";
import { render } from "./render.ts";

// Each is a bundle and a process, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000 });

const known = "alarms and dashboard ask for metrics that are counted, by what they are counted by";
const drawn = "the dashboard shows every success metric with its target";

/** A mistake in the observability. CloudWatch does not report it: it only shows nothing. */
const mistakes: { mistake: string; mutation: Mutation; foundBy: keyof typeof checks }[] = [
  {
    mistake: "metrics are asked for by another name than they are counted by",
    mutation: {
      file: "infra/measures.ts",
      from: "metricName: metric,\n    dimensions: {\n      service",
      to: 'metricName: metric + "_total",\n    dimensions: {\n      service',
    },
    foundBy: known,
  },
  {
    mistake: "metrics are asked for in another namespace",
    mutation: {
      file: "infra/measures.ts",
      from: "namespace: metricNamespace",
      to: 'namespace: "concierge"',
    },
    foundBy: known,
  },
  {
    mistake: "metrics are asked for without the service they are of",
    mutation: { file: "infra/measures.ts", from: "service: serviceOf(stage),", to: "" },
    foundBy: known,
  },
  {
    mistake: "an alarm watches an outcome that there is not",
    mutation: { file: "infra/alarms.ts", from: 'is: "inactivity_timeout"', to: 'is: "inactivity"' },
    foundBy: known,
  },
  {
    mistake: "one queue's dead letters are watched twice, another's not",
    mutation: {
      file: "infra/alarms.ts",
      from: ["watched: { queue: `", "{name}Dlq`"].join("$"),
      to: "watched: { queue: `WorkQueueDlq`",
    },
    foundBy: "every dead-letter queue has its alarm",
  },
  {
    mistake: "a reaper that does not run is no news",
    mutation: { file: "infra/alarms.ts", from: 'silence: "bad",', to: 'silence: "good",' },
    foundBy: "alarms go off where they were asked to",
  },
  {
    mistake: "a success metric is not shown",
    mutation: { file: "infra/dashboard.ts", from: 'reached("reuse_rate"),', to: "" },
    foundBy: drawn,
  },
  {
    mistake: "a percentage is drawn with its target as a fraction",
    mutation: { file: "infra/dashboard.ts", from: "isShare ? value * 100 : value", to: "value" },
    foundBy: drawn,
  },
  {
    mistake: "alarms of any account may speak to the topic",
    mutation: {
      file: "infra/observability.ts",
      from: 'StringEquals: { "aws:SourceAccount": account },',
      to: "",
    },
    foundBy: "CloudWatch alone may speak to the alarms' topic, which is encrypted",
  },
  {
    mistake: "the topic is not encrypted",
    mutation: { file: "infra/observability.ts", from: "kmsMasterKeyId: key,", to: "" },
    foundBy: "CloudWatch alone may speak to the alarms' topic, which is encrypted",
  },
  {
    mistake: "alarms tell nobody",
    mutation: { file: "infra/observability.ts", from: "alarmActions: [topic.arn],", to: "" },
    foundBy: "every alarm is there, tells the topic, and says what to do",
  },
];

describe("a mistake in the observability is found", () => {
  it.each(mistakes)("$mistake", async ({ mutation, foundBy }) => {
    expect(checks[foundBy](await render("dev", [mutation]))).not.toEqual([]);
  });
});

it("a metric that is never counted cannot be watched", async () => {
  const mutation = { file: "infra/alarms.ts", from: 'sum("orphan_found")', to: 'sum("orphans")' };
  await expect(render("dev", [mutation])).rejects.toThrow();
});

it.each(Object.entries(alarms))("the runbook covers the alarm %s", (_, { see }) => {
  const text = readFileSync(new URL("../../docs/operations.md", import.meta.url), "utf8");
  const headings = [...text.matchAll(/^#+ (.+)$/gm)].map(([, title = ""]) =>
    title
      .toLowerCase()
      .replaceAll(/[^\w\s-]/g, "")
      .replaceAll(" ", "-"),
  );
  expect(headings).toContain(see);
});

it("the bootstrap's key is for this account's CloudWatch topics, and rotates yearly", () => {
  const app = new App({ context: { repository: "acme/concierge", alertEmail: "ops@example.com" } });
  const template = Template.fromStack(new BootstrapStack(app, "Bootstrap", { settings: readSettings(app) }));
  template.resourceCountIs("AWS::KMS::Key", 1);
  template.hasResourceProperties("AWS::KMS::Alias", { AliasName: "alias/concierge-alarms" });
  template.hasResourceProperties("AWS::KMS::Key", {
    EnableKeyRotation: true,
    KeyPolicy: {
      Statement: Match.arrayWith([
        {
          Effect: "Allow",
          Action: ["kms:Decrypt", "kms:GenerateDataKey*"],
          Principal: { Service: "cloudwatch.amazonaws.com" },
          Resource: "*",
          Condition: { StringEquals: { "aws:SourceAccount": { Ref: "AWS::AccountId" } } },
        },
      ]),
    },
  });
});
