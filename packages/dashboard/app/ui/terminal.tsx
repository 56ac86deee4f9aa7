import { FitAddon } from "@xterm/addon-fit";
import { Terminal as Xterm } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { type Ref, useEffect, useImperativeHandle, useRef, useState } from "react";

export interface TerminalHandle {
  /** Resolves when there is room for more, so a fast writer does not fill the memory. */
  write(text: string): Promise<void>;
}

/** Bounds the memory of a task with a lot of output. */
const scrollbackLines = 10_000;
const maxPendingChars = 500_000;

const theme = {
  background: "#101216",
  foreground: "#d7dae0",
  cursor: "#101216",
  selectionBackground: "#3b4252",
  red: "#f27983",
  green: "#7fd18b",
  yellow: "#e6c06a",
  blue: "#82aaff",
  magenta: "#d29bf0",
  cyan: "#67c7d6",
};

/** Output only: nothing is typed, links are not opened, and the title and the clipboard are out of reach. */
export function Terminal({ ref, label }: { ref: Ref<TerminalHandle>; label: string }) {
  const element = useRef<HTMLDivElement>(null);
  const terminal = useRef<Xterm>(null);
  const waiting = useRef<string[]>([]);
  const [isFollowing, setFollowing] = useState(true);

  useEffect(() => {
    if (!element.current) return;
    const xterm = new Xterm({
      convertEol: true,
      disableStdin: true,
      cursorInactiveStyle: "none",
      scrollback: scrollbackLines,
      fontSize: 13,
      fontFamily: "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace",
      theme,
      // Without a handler, xterm.js opens links of the output in a new window.
      linkHandler: { activate: () => {}, allowNonHttpProtocols: false },
    });
    const fit = new FitAddon();
    xterm.loadAddon(fit);
    xterm.open(element.current);
    xterm.textarea?.setAttribute("aria-label", `${label}. Read only.`);
    terminal.current = xterm;
    for (const text of waiting.current.splice(0)) xterm.write(text);
    const onScroll = () => {
      const { viewportY, baseY } = xterm.buffer.active;
      setFollowing(viewportY >= baseY);
    };
    const scrolled = xterm.onScroll(onScroll);
    const observer = new ResizeObserver(() => fit.fit());
    observer.observe(element.current);
    element.current.addEventListener("wheel", onScroll, { passive: true });
    return () => {
      observer.disconnect();
      scrolled.dispose();
      xterm.dispose();
      terminal.current = null;
    };
  }, [label]);

  const pendingChars = useRef(0);
  useImperativeHandle(ref, () => ({
    async write(text) {
      const xterm = terminal.current;
      if (!xterm) return void waiting.current.push(text);
      pendingChars.current += text.length;
      const written = new Promise<void>((resolve) => {
        xterm.write(text, () => {
          pendingChars.current -= text.length;
          resolve();
        });
      });
      if (pendingChars.current > maxPendingChars) await written;
    },
  }));

  return (
    <section className="output" aria-label={label}>
      <div ref={element} className="output-screen" />
      {!isFollowing && (
        <button
          type="button"
          className="follow"
          onClick={() => {
            terminal.current?.scrollToBottom();
            setFollowing(true);
          }}
        >
          Follow ↓
        </button>
      )}
    </section>
  );
}
