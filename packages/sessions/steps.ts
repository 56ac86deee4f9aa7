import type { Clock } from "@concierge/core";
import type { Step } from "@concierge/core/verbs";

/** What the steps are called when they are measured. */
const measured: Readonly<Record<string, string>> = {
  probing: "probe",
  resuming: "resume",
  moving: "snapshot",
  creating: "create",
  installing: "install",
};

export interface Steps {
  step: Step;
  /** How long each took. */
  taken: Record<string, number>;
}

/** Does steps, says so while it does them, and keeps how long each took. */
export function createSteps(clock: Clock, progress: (step: string, detail: string) => Promise<void>): Steps {
  const taken: Record<string, number> = {};
  const step: Step = async (name, detail, work) => {
    const measure = async () => {
      const from = clock.now();
      try {
        return await work();
      } finally {
        const as = measured[name] ?? name;
        taken[as] = (taken[as] ?? 0) + clock.now() - from;
      }
    };
    const [result] = await Promise.all([measure(), progress(name, detail)]);
    return result;
  };
  return { step, taken };
}
