import { ConciergeError, type StartRequest, type Task } from "@concierge/client";
import * as Dialog from "@radix-ui/react-dialog";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { useLocation } from "wouter";
import { type ApiDocument, type Issue, validate } from "../schema.ts";
import { useSignedIn } from "../signed-in.tsx";
import { Failure } from "../ui/parts.tsx";

/** Starts tasks, and opens the page of the one that was started. */
export function useStart() {
  const { client } = useSignedIn();
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  return useMutation({
    mutationFn: (request: StartRequest): Promise<Task> => client.start(request),
    onSuccess: async (task) => {
      queries.setQueryData(["task", task.id], task);
      navigate(`/tasks/${task.id}`);
      await queries.invalidateQueries({ queryKey: ["tasks"] });
    },
  });
}

export function StartButton() {
  const [isOpen, setOpen] = useState(false);
  return (
    <Dialog.Root open={isOpen} onOpenChange={setOpen}>
      <Dialog.Trigger asChild>
        <button type="button" className="primary">
          Start a task
        </button>
      </Dialog.Trigger>
      <Dialog.Portal>
        <Dialog.Overlay className="overlay" />
        <Dialog.Content className="dialog wide">
          <Dialog.Title>Start a task</Dialog.Title>
          <Dialog.Description className="muted">
            The agent runs in the session's sandbox. A new session gets a new one.
          </Dialog.Description>
          <StartForm />
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

const empty = {
  prompt: "",
  agent: "",
  sessionKey: "",
  repoUrl: "",
  baseBranch: "",
  branch: "",
  token: "",
  minutes: "",
  silence: "",
  budget: "",
};
type Fields = typeof empty;

function StartForm() {
  const { client } = useSignedIn();
  const start = useStart();
  const [fields, setFields] = useState(empty);
  const [isTried, setTried] = useState(false);
  const document = useQuery({
    queryKey: ["openapi"],
    queryFn: ({ signal }) => client.read("/openapi.json", { signal }) as Promise<ApiDocument>,
    staleTime: Number.POSITIVE_INFINITY,
  });
  const schema = document.data?.components.schemas.StartRequest;
  const request = toRequest(fields);
  const issues = [...validate(schema, request), ...refusals(start.error)];
  const problem = (path: string) =>
    isTried ? issues.find((issue) => issue.path === path)?.message : undefined;
  const agents = (schema?.properties?.agent?.enum ?? []) as string[];
  const text = (name: keyof Fields) => ({
    value: fields[name],
    onChange: (event: { target: { value: string } }) => {
      start.reset();
      setFields({ ...fields, [name]: event.target.value });
    },
  });

  return (
    <form
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        setTried(true);
        if (validate(schema, request).length === 0) start.mutate(request);
      }}
    >
      <Field id="prompt" label="Prompt" problem={problem("prompt")}>
        {(props) => (
          <textarea
            {...props}
            rows={4}
            placeholder="What should the agent do? For shell: a command."
            {...text("prompt")}
          />
        )}
      </Field>
      <div className="row">
        <Field id="agent" label="Agent" problem={problem("agent")}>
          {(props) => (
            <select {...props} {...text("agent")}>
              <option value="">Default</option>
              {agents.map((agent) => (
                <option key={agent}>{agent}</option>
              ))}
            </select>
          )}
        </Field>
        <Field id="session" label="Session" problem={problem("sessionKey")}>
          {(props) => <input {...props} placeholder="default" {...text("sessionKey")} />}
        </Field>
      </div>
      <details>
        <summary>Repository</summary>
        <Field id="repo" label="URL" problem={problem("repo.url")}>
          {(props) => <input {...props} placeholder="https://github.com/you/project" {...text("repoUrl")} />}
        </Field>
        <div className="row">
          <Field id="base" label="Base branch" problem={problem("repo.baseBranch")}>
            {(props) => <input {...props} placeholder="main" {...text("baseBranch")} />}
          </Field>
          <Field id="branch" label="Branch to push" problem={problem("repo.branch")}>
            {(props) => <input {...props} placeholder="concierge/…" {...text("branch")} />}
          </Field>
          <Field id="token" label="Token" problem={problem("repo.token")}>
            {(props) => <input {...props} type="password" autoComplete="off" {...text("token")} />}
          </Field>
        </div>
      </details>
      <details>
        <summary>Limits</summary>
        <div className="row">
          <Field id="minutes" label="Duration (s)" problem={problem("limits.maxDurationMs")}>
            {(props) => <input {...props} inputMode="decimal" placeholder="300" {...text("minutes")} />}
          </Field>
          <Field id="silence" label="Silence (s)" problem={problem("limits.inactivityMs")}>
            {(props) => <input {...props} inputMode="decimal" placeholder="60" {...text("silence")} />}
          </Field>
          <Field id="budget" label="Cost ($)" problem={problem("limits.maxCostUsd")}>
            {(props) => <input {...props} inputMode="decimal" placeholder="none" {...text("budget")} />}
          </Field>
        </div>
      </details>
      {start.error && <Failure error={start.error} />}
      <div className="actions">
        <Dialog.Close asChild>
          <button type="button">Cancel</button>
        </Dialog.Close>
        <button type="submit" className="primary" disabled={start.isPending || !schema}>
          {start.isPending ? "Starting…" : "Start"}
        </button>
      </div>
    </form>
  );
}

function toRequest(fields: Fields): StartRequest {
  const { prompt, agent, sessionKey, repoUrl, baseBranch, branch, token } = fields;
  const limits = {
    ...(fields.minutes && { maxDurationMs: Number(fields.minutes) * 1_000 }),
    ...(fields.silence && { inactivityMs: Number(fields.silence) * 1_000 }),
    ...(fields.budget && { maxCostUsd: Number(fields.budget) }),
  };
  const repo = {
    url: repoUrl,
    ...(baseBranch && { baseBranch }),
    ...(branch && { branch }),
    ...(token && { token }),
  };
  return {
    prompt,
    ...(agent && { agent: agent as NonNullable<StartRequest["agent"]> }),
    ...(sessionKey && { sessionKey }),
    ...(repoUrl && { repo }),
    ...(Object.keys(limits).length > 0 && { limits }),
  };
}

function refusals(error: unknown): readonly Issue[] {
  return (error instanceof ConciergeError && error.problem?.issues) || [];
}

interface FieldProps {
  id: string;
  label: string;
  problem: string | undefined;
  children(props: { id: string; "aria-invalid"?: true; "aria-describedby"?: string }): ReactNode;
}

function Field({ id, label, problem, children }: FieldProps) {
  const props = problem ? { id, "aria-invalid": true as const, "aria-describedby": `${id}-problem` } : { id };
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children(props)}
      {problem && (
        <p id={`${id}-problem`} className="problem" role="alert">
          {label} {problem}.
        </p>
      )}
    </div>
  );
}
