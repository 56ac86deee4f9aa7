/** The dashboard in CloudWatch's format, as plain data without IaC imports. */
import type { Line, Row, Widget } from "./dashboard.ts";
import { identify, type Names, type Source } from "./measures.ts";

const columns = 24;
const width = 6;
const height = 6;
const titleHeight = 1;
const periodSeconds = 300;

export function dashboardBody<Name>(rows: readonly Row[], names: Names<Name>, region: string | Name) {
  let y = 0;
  const widgets = rows.flatMap(({ title, widgets: ofRow }) => {
    const heading = {
      type: "text",
      ...{ x: 0, y, width: columns, height: titleHeight },
      properties: { markdown: `## ${title}` },
    };
    const placed = ofRow.map((widget, at) => ({
      type: "metric",
      x: (at * width) % columns,
      y: y + titleHeight + Math.floor((at * width) / columns) * height,
      ...{ width, height },
      properties: propertiesOf(widget, names, region),
    }));
    y += titleHeight + Math.ceil((ofRow.length * width) / columns) * height;
    return [heading, ...placed];
  });
  return { widgets };
}

function propertiesOf<Name>(widget: Widget, names: Names<Name>, region: string | Name) {
  const { title, lines, targets = [], isStacked = false, periodMs } = widget;
  return {
    title,
    region,
    view: "timeSeries",
    stacked: isStacked,
    period: periodMs === undefined ? periodSeconds : periodMs / 1000,
    metrics: lines.flatMap((line, at) => rowsOf(line, at, names)),
    ...(targets.length > 0 && { annotations: { horizontal: targets } }),
    yAxis: { left: { min: 0 } },
  };
}

/** A line is one row, or one hidden row per source and one for the expression. */
function rowsOf<Name>({ label, query }: Line, at: number, names: Names<Name>): unknown[][] {
  if (!("sources" in query)) return [[...pathOf(query, names), { stat: query.statistic, label }]];
  // Ids must be unique in a widget; those of a line are unique only in the line.
  const own = (id: string) => `l${at}_${id}`;
  const ids = Object.keys(query.sources);
  const expression = ids.reduce(
    (text, id) => text.replaceAll(new RegExp(`\\b${id}\\b`, "g"), own(id)),
    query.expression,
  );
  return [
    ...Object.entries(query.sources).map(([id, source]) => [
      ...pathOf(source, names),
      { stat: source.statistic, id: own(id), visible: false },
    ]),
    [{ expression, label, id: own("result") }],
  ];
}

function pathOf<Name>({ watched }: Source, names: Names<Name>): unknown[] {
  const { namespace, metricName, dimensions } = identify(watched, names);
  return [namespace, metricName, ...Object.entries(dimensions).flat()];
}
