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

/**
 * Gives each frame to `onFrame` in the tick its last byte came in, until the source ends. What `onFrame` throws,
 * or a frame that is none, ends it with a rejection.
 */
export function readFrames(source: Readable, onFrame: (frame: Frame) => void): Promise<void> {
  const over = Promise.withResolvers<void>();
  let buffered: Buffer = Buffer.alloc(0);

  function take(chunk: Buffer): void {
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
      if (buffered.length < end) return;
      const header: unknown = JSON.parse(buffered.toString("utf8", PREFIX_BYTES, headerEnd));
      const body = buffered.subarray(headerEnd, end);
      buffered = buffered.subarray(end);
      onFrame({ header, body });
    }
  }

  source.on("data", (chunk: Buffer) => {
    try {
      take(chunk);
    } catch (error) {
      over.reject(error);
      source.destroy();
    }
  });
  source.on("error", over.reject);
  source.on("close", () => over.resolve());
  return over.promise;
}
