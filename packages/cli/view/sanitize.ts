/**
 * What an agent prints is not trusted. Colours pass; everything else that a terminal obeys (moving the cursor, changing
 * the title, writing the clipboard, asking for a reply) is removed.
 */

// An OSC, DCS, SOS, PM or APC string up to its end; a CSI sequence; any other escape; a control character.
const controls =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it looks for
  /\x1b[\]PX^_][\s\S]*?(?:\x07|\x1b\\)|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[ -/]*[0-~]|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: the sequences for colours
const colour = /^\x1b\[[\d;:]*m$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: an escape sequence without its end
const unfinished = /\x1b(?:[\]PX^_][^\x07\x1b]*\x1b?|\[[0-?]*[ -/]*|[ -/]*)?$/;
/** A sequence that is longer than this is not waited for. */
const unfinishedMax = 4_096;

/** Cleans text that arrives in pieces: a sequence may be cut in two. */
export function createSanitizer(): (text: string) => string {
  let held = "";
  return (text) => {
    const all = held + text;
    const at = unfinished.exec(all)?.index ?? all.length;
    held = all.length - at > unfinishedMax ? "" : all.slice(at);
    return all.slice(0, at).replace(controls, (found) => (colour.test(found) ? found : ""));
  };
}

/** One line of text that a terminal can show: line breaks become spaces. */
export function printable(text: string): string {
  return createSanitizer()(text).replaceAll(/\s+/g, (space) => (/[\n\r\t]/.test(space) ? " " : space));
}
