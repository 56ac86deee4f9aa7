import type { Random } from "./random.ts";
import type { Scheduler } from "./scheduler.ts";

export interface QueueOptions<M> {
  name: string;
  scheduler: Scheduler;
  random: Random;
  visibilityMs: number;
  maxReceives: number;
  /** The current probabilities that a message is lost or comes twice. */
  faults: () => { drop: number; duplicate: number };
  /** True if the message is done; never resolves if its handler died. */
  handle: (message: M) => Promise<boolean>;
}

export interface SimulatedQueue<M> {
  send(message: M, delayMs: number): void;
}

const delayMaxMs = 900_000;

/** SQS at its worst: at least once, unordered, late, and sometimes not at all. */
export function createQueue<M>(options: QueueOptions<M>): SimulatedQueue<M> {
  const { name, scheduler, random, visibilityMs, maxReceives, faults, handle } = options;

  const deliver = (
    message: M,
    label: string,
    received: { times: number; done: boolean },
    inMs: number,
  ): void => {
    scheduler.after(inMs, label, () => {
      if (received.done || received.times >= maxReceives) return;
      received.times += 1;
      void handle(message).then((done) => {
        received.done ||= done;
      });
      // Hidden from others only for the visibility timeout: then its handler counts as dead.
      deliver(message, label, received, visibilityMs);
    });
  };

  return {
    send(message, delayMs) {
      const { drop, duplicate } = faults();
      if (random.chance(drop)) return;
      const seconds = Math.ceil(Math.min(Math.max(delayMs, 0), delayMaxMs) / 1000);
      const label = `${name} delivers ${JSON.stringify(message)}`;
      const copies = random.chance(duplicate) ? 2 : 1;
      for (let copy = 0; copy < copies; copy++) {
        const lateMs = copy === 0 ? random.between(0, 50) : random.between(0, 60_000);
        deliver(message, label, { times: 0, done: false }, seconds * 1000 + lateMs);
      }
    },
  };
}
