import type { Readable } from "node:stream";

// What goes over the pipes between the API and a sandbox's init, in both directions:
//   u32be header length · u32be body length · header (JSON) · body (bytes)
export interface Frame {
  header: unknown;
  body: Buffer;
}

const PREFIX_BYTES = 8;
const MAX_HEADER_BYTES = 4 * 1024 * 1024;
const MAX_BODY_BYTES = 4 * 1024 * 1024;

export function encodeFrame(header: object, body: Uint8Array = new Uint8Array()): Buffer {
  const json = Buffer.from(JSON.stringify(header));
  const prefix = Buffer.alloc(PREFIX_BYTES);
  prefix.writeUInt32BE(json.length, 0);
  prefix.writeUInt32BE(body.length, 4);
  return Buffer.concat([prefix, json, body]);
}

/** Frames as they come. Reading one at a time is the backpressure: what is not read waits in the pipe. */
export async function* readFrames(source: Readable): AsyncGenerator<Frame> {
  let buffered: Buffer = Buffer.alloc(0);
  for await (const chunk of source as AsyncIterable<Buffer>) {
    buffered = buffered.length === 0 ? chunk : Buffer.concat([buffered, chunk]);
    while (buffered.length >= PREFIX_BYTES) {
      const headerBytes = buffered.readUInt32BE(0);
      const bodyBytes = buffered.readUInt32BE(4);
      // The writer shares its namespace with untrusted code, which could write in its place.
      if (headerBytes > MAX_HEADER_BYTES || bodyBytes > MAX_BODY_BYTES) {
        throw new Error("a sandbox sent a frame over the limit");
      }
      const headerEnd = PREFIX_BYTES + headerBytes;
      const end = headerEnd + bodyBytes;
      if (buffered.length < end) break;
      yield {
        header: JSON.parse(buffered.toString("utf8", PREFIX_BYTES, headerEnd)),
        body: buffered.subarray(headerEnd, end),
      };
      buffered = buffered.subarray(end);
    }
  }
}
