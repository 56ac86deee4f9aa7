/** A message of a server-sent event stream. */
export interface SseMessage {
  id: string;
  data: string;
}

/** Reads server-sent events (WHATWG HTML, 9.2) from text that arrives in any pieces. An unfinished message is dropped. */
export function createSseParser() {
  let rest = "";
  let endedInCr = false;
  let id = "";
  let data: string[] = [];

  return function feed(text: string): SseMessage[] {
    const messages: SseMessage[] = [];
    // CR and LF may arrive in two pieces and still end one line.
    const fresh = endedInCr && text.startsWith("\n") ? text.slice(1) : text;
    if (text !== "") endedInCr = text.endsWith("\r");
    const lines = (rest + fresh).split(/\r\n|\r|\n/);
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line !== "") readField(line);
      else if (data.length > 0) {
        messages.push({ id, data: data.join("\n") });
        data = [];
      }
    }
    return messages;
  };

  function readField(line: string): void {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") data.push(value);
    if (name === "id" && !value.includes("\0")) id = value;
  }
}

/** The messages of a body. `onBytes` is called for everything that arrives, also comments. */
export async function* readMessages(
  body: ReadableStream<Uint8Array>,
  onBytes: () => void,
): AsyncGenerator<SseMessage> {
  const feed = createSseParser();
  const decoder = new TextDecoder();
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      onBytes();
      yield* feed(decoder.decode(value, { stream: true }));
    }
  } finally {
    // Also when the consumer stops reading: closes the connection.
    await reader.cancel().catch(() => {});
  }
}
