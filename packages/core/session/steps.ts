import type { Step } from "../base-snapshot/make.ts";
import type { Clock } from "../ports.ts";

/** The names of the steps in metrics. */
const measured: Readonly<Record<string, string>> = {
  probing: "probe",
  resuming: "resume",
  moving: "snapshot",
  creating: "create",
  installing: "install",
};

export interface Steps {
  step: Step;
  /** How long each step took, in ms. */
  taken: Record<string, number>;
}

/** Runs steps, reports each as progress, and measures it. */
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
