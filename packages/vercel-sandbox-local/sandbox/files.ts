import path from "node:path";
import { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import { extract, type Header } from "tar-stream";
import { ApiError } from "../http/errors.ts";
import { type Machine, MachineError, type Piece } from "../isolation/machine.ts";
import { SANDBOX_CWD } from "./records.ts";
import { refusal, runningSession, type World } from "./world.ts";

type TarEntry = AsyncIterable<Buffer> & { header: Header; resume(): unknown };

const CHUNK_BYTES = 512 * 1024;
const DEFAULT_MODE = 0o644;

// Init does the work, inside the namespace: a link that a sandboxed process made leads where it leads for that
// process, and never to a file of the host.

export async function makeDirectory(
  world: World,
  sessionId: string,
  request: { path: string; cwd?: string | undefined; recursive: boolean },
): Promise<void> {
  const { machine } = runningSession(world, sessionId);
  const target = resolvePath(request);
  await machine.mkdir(target, request.recursive).catch((error: unknown) => {
    throw refusal(world, sessionId, error, target);
  });
}

/** The file's bytes, pulled as the reader takes them; null when there is no such file. */
export async function readFile(
  world: World,
  sessionId: string,
  request: { path: string; cwd?: string | undefined },
): Promise<AsyncGenerator<Buffer> | null> {
  const { machine } = runningSession(world, sessionId);
  const target = resolvePath(request);
  try {
    return chunks(machine, await machine.open(target));
  } catch (error) {
    if (error instanceof MachineError && (error.code === "ENOENT" || error.code === "ENOTDIR")) return null;
    throw refusal(world, sessionId, error, target);
  }
}

async function* chunks(machine: Machine, handle: number): AsyncGenerator<Buffer> {
  try {
    for (;;) {
      const chunk = await machine.read(handle, CHUNK_BYTES);
      yield chunk;
      if (chunk.length < CHUNK_BYTES) return;
    }
  } finally {
    await machine.close(handle).catch(() => {});
  }
}

/** Writes the files of a gzipped tar, as they come. A bad entry ends it; what came before it stays written. */
export async function writeFiles(
  world: World,
  sessionId: string,
  archive: AsyncIterable<Uint8Array>,
  cwd: string,
): Promise<void> {
  const { machine } = runningSession(world, sessionId);
  try {
    await unpack(world, machine, archive, path.posix.resolve(SANDBOX_CWD, cwd));
  } catch (error) {
    throw refusal(world, sessionId, error, "the files to write");
  }
}

export async function unpack(
  world: World,
  machine: Machine,
  archive: AsyncIterable<Uint8Array>,
  cwd: string,
): Promise<void> {
  const { limits } = world.options;
  // The first reason counts. The streams that end because of it complain too, in an order of their own.
  let reason: unknown;
  const refuse = <E>(error: E): E => {
    reason ??= error;
    return error;
  };
  const entries = extract();
  const reading = pipeline(
    archive,
    limited(limits.maxUploadBytes, () =>
      refuse(tooLarge(`The upload is over ${limits.maxUploadBytes} bytes.`)),
    ),
    createGunzip(),
    limited(limits.maxUnpackedBytes, () =>
      refuse(tooLarge(`It unpacks to over ${limits.maxUnpackedBytes} bytes.`)),
    ),
    entries,
  );

  const batch = createBatch(machine);

  async function writeAll(): Promise<void> {
    let count = 0;
    for await (const entry of entries as AsyncIterable<TarEntry>) {
      count += 1;
      try {
        if (count > limits.maxEntries) throw tooLarge(`The upload has over ${limits.maxEntries} entries.`);
        await writeEntry(batch, entry, cwd, limits.maxEntryBytes);
      } catch (error) {
        throw refuse(error);
      }
    }
  }

  try {
    // Both, for the tar's iterator waits for ever when its source fails while an entry is being written.
    await Promise.all([writeAll(), reading]);
  } catch (error) {
    await batch.flush().catch(refuse);
    throw uploadError(reason ?? error);
  }
  await batch.flush();
}

async function writeEntry(batch: Batch, entry: TarEntry, cwd: string, maxBytes: number): Promise<void> {
  const { header } = entry;
  const target = { path: entryPath(header, cwd), mode: (header.mode ?? DEFAULT_MODE) & 0o777 };
  if (header.type === "directory") {
    entry.resume();
    await batch.add({ ...target, kind: "directory", bytes: Buffer.alloc(0) });
    return;
  }
  if ((header.size ?? 0) > maxBytes) throw tooLarge(`"${header.name}" is over ${maxBytes} bytes.`);
  let kind: Piece["kind"] = "file";
  for await (const bytes of gathered(entry)) {
    await batch.add({ ...target, kind, bytes });
    kind = "rest";
  }
  if (kind === "file") await batch.add({ ...target, kind, bytes: Buffer.alloc(0) });
}

function entryPath(header: Header, cwd: string): string {
  const { name, type } = header;
  if (type !== "file" && type !== "directory") {
    throw new ApiError("bad_request", `"${name}" is a ${type}: only files and directories can be written.`);
  }
  if (name.startsWith("/") || name.split("/").includes("..") || name.includes("\0")) {
    throw new ApiError("bad_request", `"${name}" leads out of the directory that is written to.`);
  }
  return path.posix.join(cwd, name);
}

/** Larger pieces than a tar comes in. */
async function* gathered(entry: TarEntry): AsyncGenerator<Buffer> {
  let held: Buffer[] = [];
  let size = 0;
  for await (const chunk of entry) {
    held.push(chunk);
    size += chunk.length;
    if (size < CHUNK_BYTES) continue;
    yield Buffer.concat(held);
    held = [];
    size = 0;
  }
  if (size > 0) yield Buffer.concat(held);
}

interface Batch {
  add(piece: Piece): Promise<void>;
  flush(): Promise<void>;
}

/** As much at once as an order may hold, for each is a round trip. */
function createBatch(machine: Machine): Batch {
  let held: Piece[] = [];
  let size = 0;

  async function flush(): Promise<void> {
    if (held.length === 0) return;
    const pieces = held;
    held = [];
    size = 0;
    await machine.write(pieces);
  }

  return {
    flush,
    async add(piece) {
      held.push(piece);
      size += piece.path.length + piece.bytes.length;
      if (size >= CHUNK_BYTES) await flush();
    },
  };
}

function limited(maxBytes: number, exceeded: () => Error): Transform {
  let seen = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      seen += chunk.length;
      if (seen > maxBytes) done(exceeded());
      else done(null, chunk);
    },
  });
}

function tooLarge(message: string): ApiError {
  return new ApiError("payload_too_large", message);
}

function uploadError(error: unknown): unknown {
  if (error instanceof ApiError || error instanceof MachineError) return error;
  // What is left is gzip's or tar's own complaint.
  return new ApiError("bad_request", `The upload is not a gzipped tar: ${String(error)}`);
}

function resolvePath({ path: target, cwd }: { path: string; cwd?: string | undefined }): string {
  return path.posix.resolve(SANDBOX_CWD, cwd ?? "", target);
}
