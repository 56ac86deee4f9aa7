import { type OutputBatch, type Provider, ProviderError, type Store } from "@concierge/core";
import type { Watch } from "./watch.ts";

/** A store that reports each winning write as it happens: the item before, the guard, and the item after. */
export function observeStore(store: Store, watch: Watch): Store {
  return {
    ...store,
    async createTask(task) {
      const outcome = await store.createTask(task);
      if (outcome.won) watch.taskWritten(undefined, undefined, outcome.item);
      return outcome;
    },
    async changeTask(id, guard, change) {
      const before = watch.tasks.get(id);
      const outcome = await store.changeTask(id, guard, change);
      if (outcome.won) watch.taskWritten(before, guard, outcome.item);
      return outcome;
    },
    async changeSession(userId, key, guard, change) {
      const before = watch.sessions.get(`${userId}#${key}`);
      const outcome = await store.changeSession(userId, key, guard, change);
      if (outcome.won) watch.sessionWritten(before, outcome.item);
      return outcome;
    },
    async createWarm(sandbox) {
      const won = await store.createWarm(sandbox);
      if (won) watch.warmWritten(sandbox);
      return won;
    },
    async changeWarm(name, from, sandbox) {
      const won = await store.changeWarm(name, from, sandbox);
      if (won) watch.warmWritten(sandbox);
      return won;
    },
    async deleteWarm(name, from) {
      const won = await store.deleteWarm(name, from);
      if (won) watch.warm.delete(name);
      return won;
    },
    async putBaseSnapshot(base, seen) {
      const won = await store.putBaseSnapshot(base, seen);
      if (won && base.state === "building") watch.named(base.name);
      return won;
    },
    async addUsage(day, userId, counters, expiresAt) {
      watch.evidence.used(userId, counters.turns ?? 0);
      return await store.addUsage(day, userId, counters, expiresAt);
    },
    async putRecord(taskId, record, expiresAt) {
      watch.keepsSecrets("a record", record.kind === "progress" ? record : recordText(record.chunks));
      await store.putRecord(taskId, record, expiresAt);
    },
  };
}

/** A provider that reports what starts and ends sandboxes. */
export function observeProvider(provider: Provider, watch: Watch): Provider {
  return {
    ...provider,
    async create(options) {
      watch.creating(options.name, options.tags);
      const made = await provider.create(options);
      watch.created();
      return made;
    },
    async writeFiles(sandbox, files) {
      for (const { content } of files) if (typeof content === "string") watch.keepsSecrets("a file", content);
      await provider.writeFiles(sandbox, files);
    },
    async launch(sandbox, runDir, env) {
      watch.keepsSecrets("a process's arguments", runDir);
      return await provider.launch(sandbox, runDir, env);
    },
    async sweep(sandbox, runDir, options) {
      const after = watch.sweeping(sandbox.name, runDir);
      const result = await provider.sweep(sandbox, runDir, options);
      after();
      return result;
    },
    async remove(name, options) {
      watch.removing(name);
      await provider.remove(name, options);
    },
  };
}

/** The provider as one invocation hears it: the responses, not what really happened. */
export function overhearProvider(provider: Provider, { evidence }: Watch): Provider {
  const overheard: Partial<Provider> = {
    async sweep(sandbox, runDir, options) {
      try {
        const found = await provider.sweep(sandbox, runDir, options);
        evidence.swept(runDir, found);
        return found;
      } catch (error) {
        evidence.swept(runDir, "no answer");
        throw error;
      }
    },
    async snapshot(sandbox, keepMs) {
      try {
        return await provider.snapshot(sandbox, keepMs);
      } catch (error) {
        if (error instanceof ProviderError && error.kind === "refused")
          evidence.snapshotRefused(sandbox.name);
        throw error;
      }
    },
  };
  return overridden(provider, overheard);
}

/** What one reaper pass reads of the due tasks. */
export function overhearReaper(store: Store, { evidence }: Watch): Store {
  const listed = new Set<string>();
  return overridden(store, {
    async listDueTasks(now, limit) {
      const isCalm = evidence.isCalm();
      const due = await store.listDueTasks(now, limit);
      for (const { id } of isCalm ? due : []) listed.add(id);
      return due;
    },
    async getTask(id) {
      const task = await store.getTask(id);
      if (task && listed.delete(id)) evidence.reaperRead(task);
      return task;
    },
  });
}

export function overridden<T extends object>(port: T, methods: Partial<T>): T {
  return new Proxy(port, { get: (target, name) => Reflect.get(name in methods ? methods : target, name) });
}

function recordText(chunks: OutputBatch["chunks"]): string {
  return chunks
    .map((chunk) => ("data" in chunk ? Buffer.from(chunk.data).toString("utf8") : JSON.stringify(chunk)))
    .join("\n");
}
