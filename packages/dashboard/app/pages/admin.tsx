import type { Flags, Key, ReapReport, UserLimits } from "@concierge/client";
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { formatDuration } from "../format.ts";
import { useSignedIn } from "../signed-in.tsx";
import { Confirm, Copy, Failure, Loading, TableWrap, Time } from "../ui/parts.tsx";

export function Admin() {
  const { may } = useSignedIn();
  return (
    <>
      <div className="head">
        <h1>Admin</h1>
      </div>
      {may("keys") && <Keys />}
      {may("admin") && <FlagsCard />}
      {may("admin") && <Reap />}
      {may("admin") && <Limits />}
      {may("admin") && <Audit />}
    </>
  );
}

function Keys() {
  const { client, me } = useSignedIn();
  const queries = useQueryClient();
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState<Key["scopes"]>(["tasks:read"]);
  const [userId, setUserId] = useState("");
  const refresh = () => queries.invalidateQueries({ queryKey: ["keys"] });
  const keys = useQuery({
    queryKey: ["keys"],
    queryFn: ({ signal }) => client.keys.list({ limit: 100 }, { signal }),
  });
  const create = useMutation({
    mutationFn: () => client.keys.create({ scopes, ...(name && { name }), ...(userId && { userId }) }),
    onSuccess: refresh,
  });
  const revoke = useMutation({ mutationFn: (id: string) => client.keys.delete(id), onSuccess: refresh });
  return (
    <section className="card" aria-label="Keys">
      <h2>Keys</h2>
      {keys.error && <Failure error={keys.error} />}
      {revoke.error && <Failure error={revoke.error} />}
      {keys.data?.items.length === 0 && <p className="muted">No keys besides the bootstrap key.</p>}
      {keys.data && keys.data.items.length > 0 && (
        <TableWrap label="Keys table">
          <table>
            <thead>
              <tr>
                <th scope="col">Name</th>
                <th scope="col">User</th>
                <th scope="col">Scopes</th>
                <th scope="col">Last used</th>
                <th scope="col">Expires</th>
                <th scope="col">
                  <span className="visually-hidden">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {keys.data.items.map((key) => (
                <tr key={key.id}>
                  <td title={key.id}>{key.name ?? key.id}</td>
                  <td>{key.userId}</td>
                  <td className="mono">{key.scopes.join(" ")}</td>
                  <td className="nowrap">
                    <Time at={key.lastUsedAt} />
                  </td>
                  <td className="nowrap">
                    <Time at={key.expiresAt} />
                  </td>
                  <td>
                    <Confirm
                      title={`Revoke ${key.name ?? key.id}?`}
                      action="Revoke"
                      trigger="Revoke"
                      triggerLabel={`Revoke ${key.name ?? key.id}`}
                      onConfirm={() => revoke.mutate(key.id)}
                    >
                      It stops working at once. This cannot be undone.
                    </Confirm>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </TableWrap>
      )}
      <form
        className="inline"
        onSubmit={(event) => {
          event.preventDefault();
          create.mutate();
        }}
      >
        <input
          aria-label="Name of the new key"
          placeholder="Name"
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
        {me.admin && (
          <input
            aria-label="User of the new key"
            placeholder={`User (${me.userId})`}
            value={userId}
            onChange={(event) => setUserId(event.target.value)}
          />
        )}
        <fieldset>
          <legend className="visually-hidden">Scopes</legend>
          {me.scopes.map((scope) => (
            <label key={scope} className="check">
              <input
                type="checkbox"
                checked={scopes.includes(scope)}
                onChange={(event) =>
                  setScopes(event.target.checked ? [...scopes, scope] : scopes.filter((one) => one !== scope))
                }
              />
              {scope}
            </label>
          ))}
        </fieldset>
        <button type="submit" disabled={create.isPending || scopes.length === 0}>
          Create a key
        </button>
      </form>
      {create.error && <Failure error={create.error} />}
      {create.data && (
        <p className="notice" role="status">
          The new key, shown only now: <code>{create.data.key}</code>{" "}
          <Copy text={create.data.key} label="Copy" />
        </p>
      )}
    </section>
  );
}

function FlagsCard() {
  const { client } = useSignedIn();
  const queries = useQueryClient();
  const flags = useQuery({ queryKey: ["flags"], queryFn: ({ signal }) => client.flags.get({ signal }) });
  const set = useMutation({
    mutationFn: ({ name, value }: { name: string; value: string }) => client.flags.set({ [name]: value }),
    onSuccess: (next) => queries.setQueryData(["flags"], next),
  });
  return (
    <section className="card" aria-label="Flags">
      <h2>
        Flags <span className="muted">· on, off or a percentage of users; active within ten seconds</span>
      </h2>
      {flags.error && <Failure error={flags.error} />}
      {flags.isPending && <Loading what="flags" />}
      {flags.data &&
        (Object.entries(flags.data) as [keyof Flags, string][]).map(([name, value]) => (
          <FlagRow
            key={`${name}${value}`}
            name={name}
            value={value}
            onSet={(next) => set.mutate({ name, value: next })}
          />
        ))}
      {set.error && <Failure error={set.error} />}
    </section>
  );
}

function FlagRow({ name, value, onSet }: { name: string; value: string; onSet(value: string): void }) {
  const [next, setNext] = useState(value);
  return (
    <div className="flag">
      <span className="mono">{name}</span>
      <input aria-label={name} value={next} onChange={(event) => setNext(event.target.value)} />
      <Confirm
        title={`Set ${name} to ${next}?`}
        action="Change it"
        trigger="Change"
        triggerLabel={`Change ${name}`}
        disabled={next === value || next === ""}
        isDanger={false}
        onConfirm={() => onSet(next)}
      >
        It is {value} now. The change is for all users and is written to the audit log.
      </Confirm>
    </div>
  );
}

function Reap() {
  const { client } = useSignedIn();
  const reap = useMutation({ mutationFn: (dryRun: boolean) => client.reap({ dryRun }) });
  const isPlanned = reap.data?.dryRun === true;
  return (
    <section className="card" aria-label="Reaper">
      <h2>
        Reaper <span className="muted">· ends what is overdue, releases what is idle, removes orphans</span>
      </h2>
      <div className="actions start">
        <button type="button" disabled={reap.isPending} onClick={() => reap.mutate(true)}>
          {reap.isPending ? "Looking…" : "Show what a pass would do"}
        </button>
        {isPlanned && (
          <Confirm
            title="Run this pass now?"
            action="Run the pass"
            trigger="Run the pass"
            onConfirm={() => reap.mutate(false)}
          >
            Overdue turns are ended with proof. Idle sandboxes and orphans are deleted.
          </Confirm>
        )}
      </div>
      {reap.error && <Failure error={reap.error} />}
      {reap.data && <Report report={reap.data} />}
    </section>
  );
}

function Report({ report }: { report: ReapReport }) {
  const lines = [
    ...Object.entries(report.tasks).map(([what, count]) => `tasks ${what}: ${count}`),
    ...Object.entries(report.sessions).map(([what, count]) => `sessions ${what}: ${count}`),
    `orphans: ${report.orphans.length}${report.orphans.length > 0 ? ` (${report.orphans.join(", ")})` : ""}`,
    `evicted: ${report.evicted}`,
    `warmed: ${report.warmed}`,
    ...report.failures.map((failure) => `failed: ${failure}`),
  ];
  return (
    <div role="status">
      <h3>{report.dryRun ? "A pass would do this" : "The pass did this"}</h3>
      <ul>
        {lines.map((line) => (
          <li key={line}>{line}</li>
        ))}
      </ul>
      <p className="hint">
        {report.complete ? "Complete" : "Incomplete: the next pass continues"} ·{" "}
        {formatDuration(report.durationMs)}
      </p>
    </div>
  );
}

function Limits() {
  const { client, me } = useSignedIn();
  const queries = useQueryClient();
  const [userId, setUserId] = useState(me.userId);
  const [asked, setAsked] = useState("");
  const limits = useQuery({
    queryKey: ["limits", asked],
    queryFn: ({ signal }) => client.users.limits(asked, { signal }),
    enabled: asked !== "",
  });
  const set = useMutation({
    mutationFn: ({ name, text }: { name: string; text: string }) =>
      client.users.setLimits(asked, {
        [name]: text === "default" ? "default" : text === "none" ? null : Number(text),
      }),
    onSuccess: (next) => queries.setQueryData(["limits", asked], next),
  });
  return (
    <section className="card" aria-label="Limits of a user">
      <h2>
        Limits of a user <span className="muted">· a number, “none” or “default”</span>
      </h2>
      <form
        className="inline"
        onSubmit={(event) => {
          event.preventDefault();
          setAsked(userId);
        }}
      >
        <input aria-label="User" value={userId} onChange={(event) => setUserId(event.target.value)} />
        <button type="submit">Show limits</button>
      </form>
      {limits.error && <Failure error={limits.error} />}
      {limits.data &&
        (Object.entries(limits.data) as [keyof UserLimits, number | null][]).map(([name, value]) => (
          <FlagRow
            key={`${name}${value}`}
            name={name}
            value={value === null ? "none" : String(value)}
            onSet={(text) => set.mutate({ name, text })}
          />
        ))}
      {set.error && <Failure error={set.error} />}
    </section>
  );
}

function Audit() {
  const { client } = useSignedIn();
  const [userId, setUserId] = useState("");
  const [action, setAction] = useState("");
  const audit = useInfiniteQuery({
    queryKey: ["audit", userId, action],
    queryFn: ({ pageParam, signal }) =>
      client.audit(
        {
          limit: 20,
          ...(pageParam && { cursor: pageParam }),
          ...(userId && { userId }),
          ...(action && { action: action as (typeof actions)[number] }),
        },
        { signal },
      ),
    initialPageParam: "",
    getNextPageParam: (page) => page.cursor,
  });
  const entries = audit.data?.pages.flatMap(({ items }) => items) ?? [];
  return (
    <section className="card" aria-label="Audit log">
      <h2>Audit log</h2>
      <search className="filters">
        <input
          aria-label="User who acted"
          placeholder="User"
          value={userId}
          onChange={(event) => setUserId(event.target.value)}
        />
        <select aria-label="Action" value={action} onChange={(event) => setAction(event.target.value)}>
          <option value="">Any action</option>
          {actions.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </search>
      {audit.error && <Failure error={audit.error} />}
      {audit.isSuccess && entries.length === 0 && <p className="muted">No entry matches.</p>}
      {entries.length > 0 && (
        <TableWrap label="Audit log table">
          <table>
            <thead>
              <tr>
                <th scope="col">When</th>
                <th scope="col">Who</th>
                <th scope="col">Action</th>
                <th scope="col">Target</th>
                <th scope="col">Detail</th>
              </tr>
            </thead>
            <tbody>
              {entries.map((entry) => (
                <tr key={entry.id}>
                  <td className="nowrap">
                    <Time at={entry.at} />
                  </td>
                  <td title={`key ${entry.keyId}, ${entry.ip ?? "no address"}`}>{entry.userId}</td>
                  <td className="mono">{entry.action}</td>
                  <td className="mono break">{entry.target}</td>
                  <td className="hint">
                    {Object.entries(entry.detail)
                      .map(([name, value]) => `${name}: ${value}`)
                      .join(", ")}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </TableWrap>
      )}
      {audit.hasNextPage && (
        <button type="button" className="more" onClick={() => void audit.fetchNextPage()}>
          Show older entries
        </button>
      )}
    </section>
  );
}

const actions = [
  "key.create",
  "key.revoke",
  "key.rotate",
  "flags.change",
  "limits.change",
  "webhook_secret.rotate",
  "push.grant",
  "task.stop",
  "task.delete",
  "session.delete",
  "user.delete",
] as const;
