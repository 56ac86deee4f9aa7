import { isTerminal, type Task } from "@concierge/client";
import { formatDuration, formatStatus, formatUsd, paint, shorten } from "./format.ts";
import { summaryOf } from "./plain.ts";
import { createSanitizer, printable } from "./sanitize.ts";
import { type TaskView, textOf } from "./task-view.ts";

export interface Screen {
  write(text: string): void;
  columns: number;
}

export interface LiveOptions {
  screen?: Screen;
  now?: () => number;
  /** Time between updates of the progress line. */
  tickMs?: number;
}

const eraseLine = "\r\x1b[2K";
const spinner = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const phaseWidth = "provisioning".length;

/** For terminals: output and finished phases scroll by, and the last line shows what happens now. */
export function createLiveView({
  screen = terminal(),
  now = Date.now,
  tickMs = 200,
}: LiveOptions = {}): TaskView {
  const clean = createSanitizer();
  let shown: Task | undefined;
  let phase: { status: string; at: number } | undefined;
  let step = "";
  let costUsd = 0;
  let trouble = "";
  let frame = 0;
  let isLineOpen = false;
  /** The width of the progress line on the screen; 0 if there is none. */
  let drawnWidth = 0;
  let held: string[] | undefined;
  const timer = setInterval(() => {
    frame += 1;
    draw();
  }, tickMs);

  return {
    begin(task) {
      shown = task;
      costUsd = task.usage.costUsd;
      const session = `${task.agent}, session ${task.sessionKey}, turn ${task.turn}`;
      line(`${paint("bold", task.id)} ${paint("dim", session)}`);
    },
    event(event) {
      if (!shown) return;
      trouble = "";
      if (event.type === "status") {
        enter(event.status, Date.parse(event.at));
      } else if (event.type === "progress") {
        step = printable(`${event.step}: ${event.detail}`);
        draw();
      } else if (event.type === "notice") {
        line(paint("yellow", printable(`! ${event.code}: ${event.detail}`)));
      } else {
        print(clean(textOf(event, shown)));
      }
    },
    cost(usd) {
      costUsd = usd;
    },
    retry({ error }) {
      trouble = `${error.detail} Connecting again`;
      draw();
    },
    note: line,
    pause() {
      erase();
      held = [];
    },
    resume() {
      const texts = held ?? [];
      held = undefined;
      for (const text of texts) print(text);
      draw();
    },
    end(task) {
      clearInterval(timer);
      phase = undefined;
      const isGood = task.status === "succeeded";
      line(`${isGood ? paint("green", "✓") : paint("red", "✗")} ${printable(summaryOf(task))}`);
    },
    close() {
      clearInterval(timer);
      erase();
      phase = undefined;
    },
  };

  function enter(status: string, at: number): void {
    const previous = phase;
    phase = isTerminal(status) ? undefined : { status, at };
    step = "";
    if (previous) {
      const took = formatDuration(Math.max(at - previous.at, 0));
      line(`${paint("green", "✓")} ${previous.status.padEnd(phaseWidth)}  ${paint("dim", took)}`);
    }
    draw();
  }

  /** Starts on a fresh line, also after output without a line break. Resets colours that the output left on. */
  function line(text: string): void {
    print(`${isLineOpen ? "\x1b[0m\n" : ""}${text}\n`);
  }

  function print(text: string): void {
    if (text === "") return;
    if (held) {
      held.push(text);
      return;
    }
    erase();
    screen.write(text);
    isLineOpen = !text.endsWith("\n");
    draw();
  }

  /** The progress line. Not drawn behind output that has not ended its line. */
  function draw(): void {
    if (!phase || held || isLineOpen) return;
    const sign = spinner[frame % spinner.length] ?? "";
    const took = formatDuration(Math.max(now() - phase.at, 0));
    const parts = [took, ...(step ? [step] : []), ...(costUsd > 0 ? [formatUsd(costUsd)] : [])];
    const rest = trouble || `${parts.join(" · ")} · Ctrl-C to stop or leave`;
    const room = screen.columns - phase.status.length - 4;
    const fitting = shorten(rest, room);
    const text = paint(trouble ? "yellow" : "dim", fitting);
    screen.write(`${eraseDrawn()}${paint("cyan", sign)} ${formatStatus(phase.status)} ${text}`);
    drawnWidth = phase.status.length + 3 + [...fitting].length;
  }

  function erase(): void {
    if (drawnWidth > 0) screen.write(eraseDrawn());
    drawnWidth = 0;
  }

  /** A terminal that became narrower has wrapped the line, so the rows above are erased, too. */
  function eraseDrawn(): string {
    const wrapped = Math.max(Math.ceil(drawnWidth / Math.max(screen.columns, 1)) - 1, 0);
    return eraseLine + `\x1b[1A${eraseLine}`.repeat(wrapped);
  }
}

function terminal(): Screen {
  return {
    write: (text) => void process.stdout.write(text),
    get columns() {
      return process.stdout.columns || 80;
    },
  };
}
