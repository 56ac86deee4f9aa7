import { isTerminal, type Task } from "@concierge/client";
import { useQuery } from "@tanstack/react-query";
import { useSignedIn } from "./signed-in.tsx";

const refreshEveryMs = 30_000;

/** The caller's last 100 tasks, for distributions and timelines. */
export function useRecentTasks() {
  const { client, may } = useSignedIn();
  const query = useQuery({
    queryKey: ["recent"],
    queryFn: ({ signal }) => client.list({ limit: 100 }, { signal }),
    refetchInterval: refreshEveryMs,
    enabled: may("tasks:read"),
  });
  const tasks: readonly Task[] = query.data?.items ?? [];
  return { query, tasks, ended: tasks.filter(({ status }) => isTerminal(status)) };
}
