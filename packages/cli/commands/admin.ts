import { Option } from "@commander-js/extra-typings";
import type { FlagsRequest, Key } from "@concierge/client";
import { connect } from "../connection/connect.ts";
import { exitCodes } from "../errors.ts";
import { collectPair, parseDuration, parseWholeNumber } from "../options.ts";
import type { Program } from "../program.ts";
import { formatAge, formatDuration } from "../view/format.ts";
import { printFields, printJson, printLine, printNote, printTable } from "../view/table.ts";

const scopes: readonly Key["scopes"][number][] = [
  "tasks:read",
  "tasks:write",
  "sessions:read",
  "sessions:write",
  "keys",
  "admin",
];

export function registerAdmin(program: Program): void {
  program
    .command("reap")
    .description("run a reaper pass now (admins)")
    .option("--dry-run", "only report what it would do")
    .action(async ({ dryRun }, command) => {
      const options = command.optsWithGlobals();
      const report = await (await connect(options)).reap({ dryRun });
      if (report.failures.length > 0) process.exitCode = exitCodes.failed;
      if (options.json) return printJson(report);
      printFields({
        "dry run": report.dryRun ? "yes" : "no",
        tasks: counts(report.tasks),
        sessions: counts(report.sessions),
        orphans: report.orphans.join(", ") || "none",
        evicted: String(report.evicted),
        warmed: String(report.warmed),
        complete: report.complete ? "yes" : "no, the next pass continues",
        took: formatDuration(report.durationMs),
        failures: report.failures.join("; ") || undefined,
      });
    });

  const flags = program.command("flags").description("show and change feature flags (admins)");
  flags
    .command("list", { isDefault: true })
    .description("show all flags")
    .action(async (_, command) => {
      const options = command.optsWithGlobals();
      const all = await (await connect(options)).flags.get();
      options.json ? printJson(all) : printFields(all);
    });
  flags
    .command("set")
    .description("change flags: on, off or a percentage of users; active within ten seconds")
    .argument("<name=value...>", "for example ENABLE_HEALTH_PROBE=10%", collectPair)
    .action(async (values, _, command) => {
      const options = command.optsWithGlobals();
      const all = await (await connect(options)).flags.set(values as FlagsRequest);
      options.json ? printJson(all) : printFields(all);
    });

  const keys = program.command("keys").description("list, create, rotate and revoke API keys");
  keys
    .command("list", { isDefault: true })
    .description("list your keys, newest first, without their secrets; admins see all")
    .option("-n, --limit <number>", "how many, at most 100", parseWholeNumber, 20)
    .option("--cursor <cursor>", "the next page")
    .action(async ({ limit, cursor }, command) => {
      const options = command.optsWithGlobals();
      const page = await (await connect(options)).keys.list({ limit, ...(cursor && { cursor }) });
      if (options.json) return printJson(page);
      printTable(["KEY", "USER", "NAME", "AGE", "LAST USED", "EXPIRES", "SCOPES"], page.items.map(rowOf));
      if (page.cursor) printNote(`More: concierge keys --cursor ${page.cursor}`);
    });
  keys
    .command("create")
    .description("create a key; it is shown once")
    .argument("[user]", "the key's user (admins); default yourself")
    .option("--name <name>", "what it is for")
    .addOption(
      new Option("--scope <scope...>", "what it may do; default what your key may do").choices(scopes),
    )
    .option("--expires-in <time>", "end it after this time, for example 30d", parseDuration)
    .option("--admin", "it may do everything (admins)")
    .action(async (userId, { name, scope, expiresIn, admin }, command) => {
      const options = command.optsWithGlobals();
      const created = await (await connect(options)).keys.create({
        ...(userId && { userId }),
        ...(name && { name }),
        ...(scope && { scopes: scope }),
        ...(expiresIn !== undefined && { expiresAt: new Date(Date.now() + expiresIn).toISOString() }),
        ...(admin && { admin }),
      });
      showNew(created, options.json);
    });
  keys
    .command("rotate")
    .description("replace a key; the new one is shown once")
    .argument("<key>", "the key's id")
    .option("--overlap <time>", "accept the old key for this time, for example 1h", parseDuration)
    .action(async (id, { overlap }, command) => {
      const options = command.optsWithGlobals();
      showNew(await (await connect(options)).keys.rotate(id, { overlapMs: overlap }), options.json);
    });
  keys
    .command("revoke")
    .description("revoke a key")
    .argument("<key>", "the key's id")
    .action(async (id, _, command) => {
      const options = command.optsWithGlobals();
      await (await connect(options)).keys.delete(id);
      options.json ? printJson({ revoked: id }) : printLine(`${id} revoked`);
    });
}

function rowOf({ id, userId, name, scopes, createdAt, expiresAt, lastUsedAt }: Key): string[] {
  return [
    id,
    userId,
    name ?? "-",
    formatAge(Date.now() - Date.parse(createdAt)),
    lastUsedAt ? formatAge(Date.now() - Date.parse(lastUsedAt)) : "-",
    expiresAt ? expiresAt.slice(0, 10) : "-",
    scopes.join(" "),
  ];
}

/** The secret alone on stdout, so that a script can store it. */
function showNew(created: { id: string; key: string }, json: true | undefined): void {
  if (json) {
    printJson(created);
    return;
  }
  printLine(created.key);
  printNote(`Key ${created.id}. Store it now: it is not shown again.`);
}

function counts(numbers: Readonly<Record<string, number>>): string {
  const parts = Object.entries(numbers).map(([name, number]) => `${number} ${name}`);
  return parts.join(", ") || "none";
}
