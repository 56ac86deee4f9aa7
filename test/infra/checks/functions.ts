import { bundling, type FunctionDefinition, fileNames, platform, topology } from "../../../infra/topology.ts";
import { all, arnOf, type Check, differs, find, nameOf, read, setDiffers } from "../resources.ts";

const definitions: [string, FunctionDefinition][] = Object.entries(topology.functions);

export const functions: Check = (program) => [
  ...setDiffers(
    "the program's functions",
    all(program, "function").map(({ name }) => name),
    [
      ...definitions.map(([name]) => `${name}Function`),
      ...(program.stage === "production" ? ["RouterEdgeFunction"] : []),
    ],
  ),
  ...definitions.flatMap(([name, definition]) => {
    const fn = find(program, "function", `${name}Function`);
    const reserved = program.stage === "production" ? definition.reserved?.concurrency : undefined;
    return [
      ...differs(`${name}'s runtime`, read(fn, "runtime"), platform.runtime),
      ...differs(`${name}'s architecture`, read(fn, "architectures"), [platform.architecture]),
      ...differs(`${name}'s timeout`, read(fn, "timeout"), definition.timeoutMs / 1000),
      ...differs(`${name}'s memory`, read(fn, "memorySize"), definition.memoryMb),
      ...differs(`${name}'s reserved concurrency`, read(fn, "reservedConcurrentExecutions"), reserved),
    ];
  }),
  ...all(program, "provisioned").map(
    ({ name }) => `${name} provisions concurrency, which costs without a call`,
  ),
];

/** What is deployed is the tested bundle, and its files are where the variables say. */
export const bundles: Check = (program) =>
  definitions.flatMap(([name, definition]) => {
    const build = program.builds.find(({ functionID }) => functionID === name);
    const fn = find(program, "function", `${name}Function`);
    const files = Object.entries(fileNames(definition));
    return [
      ...differs(`${name}'s bundle`, build?.bundle?.split("/").slice(-2), [bundling.directory, name]),
      ...differs(`${name}'s handler`, read(fn, "handler"), bundling.handler),
      ...files.flatMap(([variable, file]) =>
        differs(`${name}'s ${variable}`, read(fn, `environment.variables.${variable}`), file),
      ),
    ];
  });

export const logs: Check = (program) => [
  ...all(program, "logGroup").flatMap((group) =>
    differs(
      `${group.name}'s retention`,
      read(group, "retentionInDays"),
      program.stage === "production" ? 90 : 7,
    ),
  ),
  ...definitions.flatMap(([name]) =>
    differs(
      `${name}'s log group`,
      read(find(program, "function", `${name}Function`), "loggingConfig.logGroup"),
      nameOf(find(program, "logGroup", `${name}Logs`)),
    ),
  ),
];

/** Lambda stops a function that feeds itself through a queue after 16 hops, unless that is allowed. */
export const recursion: Check = (program) => {
  const feedsItself = definitions.filter(([, { sources = [], grants }]) =>
    sources.some(({ queue }) =>
      grants.some(({ on, actions }) => on === queue && actions.includes("sqs:SendMessage")),
    ),
  );
  const allowed = all(program, "recursion").filter((config) => read(config, "recursiveLoop") === "Allow");
  return setDiffers(
    "what may feed itself",
    allowed.map((config) => String(read(config, "functionName"))),
    feedsItself.map(([name]) => nameOf(find(program, "function", `${name}Function`))),
  );
};

export const schedules: Check = (program) => {
  const wanted = definitions.filter(([, { scheduleEveryMs }]) => scheduleEveryMs !== undefined);
  return [
    ...differs("the number of schedules", all(program, "schedule").length, wanted.length),
    ...wanted.flatMap(([name, { scheduleEveryMs = 0 }]) => {
      const schedule = find(program, "schedule", `${name}ScheduleSchedule`);
      const invoke = find(program, "invokeConfig", `${name}EventInvokeConfig`);
      const minutes = scheduleEveryMs / 60_000;
      const rate = minutes === 1 ? "rate(1 minute)" : `rate(${minutes} minutes)`;
      return [
        ...differs(`${name}'s schedule`, read(schedule, "scheduleExpression"), rate),
        ...differs(`${name}'s schedule's state`, read(schedule, "state"), "ENABLED"),
        ...differs(
          `${name}'s target`,
          read(schedule, "target.arn"),
          arnOf(find(program, "function", `${name}Function`)),
        ),
        ...differs(
          `${name}'s schedule's role`,
          read(schedule, "target.roleArn"),
          arnOf(find(program, "role", `${name}ScheduleRole`)),
        ),
        ...differs(`${name}'s retries`, read(invoke, "maximumRetryAttempts"), 0),
      ];
    }),
  ];
};
