import type { Readable } from "node:stream";

// The format on the pipes between the API and a sandbox's init, in both directions:
//   u32be header length · u32be body length · header (JSON) · body (bytes)
export interface Frame {
  header: unknown;
  body: Buffer;
}

const prefixBytes = 8;
const maxHeaderBytes = 4 * 1024 * 1024;
const maxBodyBytes = 4 * 1024 * 1024;

export function encodeFrame(header: object, body: Uint8Array = new Uint8Array()): Buffer {
  const json = Buffer.from(JSON.stringify(header));
  const prefix = Buffer.alloc(prefixBytes);
  prefix.writeUInt32BE(json.length, 0);
  prefix.writeUInt32BE(body.length, 4);
  return Buffer.concat([prefix, json, body]);
}

/**
 * Calls `onFrame` for each frame in the tick its last byte arrives. Resolves when the source ends; rejects if `onFrame`
 * throws or a frame is invalid.
 */
export function readFrames(source: Readable, onFrame: (frame: Frame) => void): Promise<void> {
  const finished = Promise.withResolvers<void>();
  let buffered: Buffer = Buffer.alloc(0);

  function take(chunk: Buffer): void {
    buffered = buffered.length === 0 ? chunk : Buffer.concat([buffered, chunk]);
    while (buffered.length >= prefixBytes) {
      const headerBytes = buffered.readUInt32BE(0);
      const bodyBytes = buffered.readUInt32BE(4);
      // Untrusted code in the same namespace could write to the pipe.
      if (headerBytes > maxHeaderBytes || bodyBytes > maxBodyBytes) {
        throw new Error("a sandbox sent a frame that is too large");
      }
      const headerEnd = prefixBytes + headerBytes;
      const end = headerEnd + bodyBytes;
      if (buffered.length < end) return;
      const header: unknown = JSON.parse(buffered.toString("utf8", prefixBytes, headerEnd));
      const body = buffered.subarray(headerEnd, end);
      buffered = buffered.subarray(end);
      onFrame({ header, body });
    }
  }

  source.on("data", (chunk: Buffer) => {
    try {
      take(chunk);
    } catch (error) {
      finished.reject(error);
      source.destroy();
    }
  });
  source.on("error", finished.reject);
  source.on("close", () => finished.resolve());
  return finished.promise;
}
