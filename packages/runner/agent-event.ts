import { type AgentEvent, MAX_EVENT_TEXT_BYTES, MAX_TEXT_LENGTH, MAX_TOOL_TEXT_BYTES } from "./protocol.ts";
import { incompleteTail } from "./utf8.ts";

/** Names of tools are short. */
const MAX_NAME_BYTES = 200;

/** CSI and OSC sequences, those of one or two characters, and what a terminal would act on besides. */
const ANSI =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
  /\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]/g;

/** Without what is meant for a terminal. */
export function clean(text: string): string {
  return text.replace(ANSI, "");
}

/** Cleaned before it is masked, as a sequence may stand in the middle of a secret; masked before it is cut. */
export function fitEvent(event: AgentEvent, mask: (text: string) => string): AgentEvent {
  const fit = (text: string, maxBytes: number) => cut(mask(clean(text)), maxBytes);
  switch (event.kind) {
    case "tool_use":
      return {
        ...event,
        name: fit(event.name, MAX_NAME_BYTES),
        input: fit(event.input, MAX_TOOL_TEXT_BYTES),
      };
    case "tool_result":
      return { ...event, text: fit(event.text, MAX_TOOL_TEXT_BYTES) };
    case "text":
    case "result":
      return { ...event, text: fit(event.text, MAX_EVENT_TEXT_BYTES) };
  }
}

/** For the end of the turn: the beginning of an answer says more than its end. */
export function fitText(text: string): string {
  if (text.length <= MAX_TEXT_LENGTH) return text;
  const kept = text.slice(0, MAX_TEXT_LENGTH - 1);
  const last = kept.charCodeAt(kept.length - 1);
  return `${last >= 0xd800 && last <= 0xdbff ? kept.slice(0, -1) : kept}…`;
}

function cut(text: string, maxBytes: number): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= maxBytes) return text;
  const kept = bytes.subarray(0, maxBytes - Buffer.byteLength("…"));
  return `${kept.subarray(0, kept.length - incompleteTail(kept))}…`;
}
