export interface Bell {
  ring(): void;
  /** Until the next ring, or until `ms` are over. A ring that nobody waits for is not kept. */
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
