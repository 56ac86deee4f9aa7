export interface Bell {
  ring(): void;
  /** Resolves at the next ring or after `ms`. A ring before the call is not remembered. */
  wait(ms: number): Promise<void>;
}

export function createBell(): Bell {
  let onRing = (): void => {};
  return {
    ring: () => onRing(),
    wait: (ms) =>
      new Promise((resolve) => {
        const timer = setTimeout(resolve, ms);
        onRing = () => {
          clearTimeout(timer);
          resolve();
        };
      }),
  };
}
