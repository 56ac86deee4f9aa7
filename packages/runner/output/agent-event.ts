import {
  type AgentEvent,
  eventTextMaxBytes,
  resultTextMaxLength,
  toolNameMaxBytes,
  toolTextMaxBytes,
} from "@concierge/protocol";
import { incompleteTail } from "./utf8.ts";

/** CSI and OSC sequences, short escape sequences, and control characters. */
const ansiPattern =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is searched for.
  /\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]/g;

/** Removes terminal sequences. */
export function stripAnsi(text: string): string {
  return text.replace(ansiPattern, "");
}

/**
 * Strips ANSI sequences, then masks, then cuts. A sequence can split a secret, so it goes first; half a secret would not
 * be recognized, so the cut comes last.
 */
export function fitEvent(event: AgentEvent, mask: (text: string) => string): AgentEvent {
  const fit = (text: string, maxBytes: number) => cut(mask(stripAnsi(text)), maxBytes);
  switch (event.kind) {
    case "tool_use":
      return {
        ...event,
        name: fit(event.name, toolNameMaxBytes),
        input: fit(event.input, toolTextMaxBytes),
      };
    case "tool_result":
      return { ...event, text: fit(event.text, toolTextMaxBytes) };
    case "text":
    case "result":
      return { ...event, text: fit(event.text, eventTextMaxBytes) };
  }
}

/** Keeps the beginning of an answer, which says more than its end. */
export function fitText(text: string): string {
  if (text.length <= resultTextMaxLength) return text;
  const kept = text.slice(0, resultTextMaxLength - 1);
  const last = kept.charCodeAt(kept.length - 1);
  return `${last >= 0xd800 && last <= 0xdbff ? kept.slice(0, -1) : kept}…`;
}

function cut(text: string, maxBytes: number): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= maxBytes) return text;
  const kept = bytes.subarray(0, maxBytes - Buffer.byteLength("…"));
  return `${kept.subarray(0, kept.length - incompleteTail(kept))}…`;
}
