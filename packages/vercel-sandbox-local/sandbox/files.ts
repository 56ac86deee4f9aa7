import path from "node:path";
import { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import { extract, type Header } from "tar-stream";
import { ApiError } from "../http/errors.ts";
import { type Machine, MachineError, type Piece } from "../isolation/machine.ts";
import { sandboxCwd } from "./records.ts";
import { refusal, runningSession, type World } from "./world.ts";

type TarEntry = AsyncIterable<Buffer> & { header: Header; resume(): unknown };

const chunkBytes = 512 * 1024;
const defaultMode = 0o644;

// Init performs file operations inside the namespace, so a symlink made in a sandbox never leads to a file of the host.

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

/** The file's bytes, read on demand. Null if there is no such file. */
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
      const chunk = await machine.read(handle, chunkBytes);
      yield chunk;
      if (chunk.length < chunkBytes) return;
    }
  } finally {
    await machine.close(handle).catch(() => {});
  }
}

/** Writes the files of a gzipped tar as they arrive. A bad entry stops it; earlier files stay written. */
export async function writeFiles(
  world: World,
  sessionId: string,
  archive: AsyncIterable<Uint8Array>,
  cwd: string,
): Promise<void> {
  const { machine } = runningSession(world, sessionId);
  try {
    await unpack(world, machine, archive, path.posix.resolve(sandboxCwd, cwd));
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
  // Report the first error. The other streams of the pipeline fail because of it, in any order.
  let reason: unknown;
  const refuse = <E>(error: E): E => {
    reason ??= error;
    return error;
  };
  const entries = extract();
  const reading = pipeline(
    archive,
    limited(limits.maxUploadBytes, () =>
      refuse(tooLarge(`The upload is larger than ${limits.maxUploadBytes} bytes.`)),
    ),
    createGunzip(),
    limited(limits.maxUnpackedBytes, () =>
      refuse(tooLarge(`The unpacked upload is larger than ${limits.maxUnpackedBytes} bytes.`)),
    ),
    entries,
  );

  const batch = createBatch(machine);

  async function writeAll(): Promise<void> {
    let count = 0;
    for await (const entry of entries as AsyncIterable<TarEntry>) {
      count += 1;
      try {
        if (count > limits.maxEntries)
          throw tooLarge(`The upload has more than ${limits.maxEntries} entries.`);
        await writeEntry(batch, entry, cwd, limits.maxEntryBytes);
      } catch (error) {
        throw refuse(error);
      }
    }
  }

  try {
    // Await both: the tar iterator never settles if its source fails while an entry is being written.
    await Promise.all([writeAll(), reading]);
  } catch (error) {
    await batch.flush().catch(refuse);
    throw uploadError(reason ?? error);
  }
  await batch.flush();
}

async function writeEntry(batch: Batch, entry: TarEntry, cwd: string, maxBytes: number): Promise<void> {
  const { header } = entry;
  const target = { path: entryPath(header, cwd), mode: (header.mode ?? defaultMode) & 0o777 };
  if (header.type === "directory") {
    entry.resume();
    await batch.add({ ...target, kind: "directory", bytes: Buffer.alloc(0) });
    return;
  }
  if ((header.size ?? 0) > maxBytes) throw tooLarge(`"${header.name}" is larger than ${maxBytes} bytes.`);
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
    throw new ApiError("bad_request", `"${name}" is outside the target directory.`);
  }
  return path.posix.join(cwd, name);
}

/** Combines the small chunks of a tar. */
async function* gathered(entry: TarEntry): AsyncGenerator<Buffer> {
  let pending: Buffer[] = [];
  let size = 0;
  for await (const chunk of entry) {
    pending.push(chunk);
    size += chunk.length;
    if (size < chunkBytes) continue;
    yield Buffer.concat(pending);
    pending = [];
    size = 0;
  }
  if (size > 0) yield Buffer.concat(pending);
}

interface Batch {
  add(piece: Piece): Promise<void>;
  flush(): Promise<void>;
}

/** Combines writes, because each request to init is a round trip. */
function createBatch(machine: Machine): Batch {
  let pending: Piece[] = [];
  let size = 0;

  async function flush(): Promise<void> {
    if (pending.length === 0) return;
    const pieces = pending;
    pending = [];
    size = 0;
    await machine.write(pieces);
  }

  return {
    flush,
    async add(piece) {
      pending.push(piece);
      size += piece.path.length + piece.bytes.length;
      if (size >= chunkBytes) await flush();
    },
  };
}

function limited(maxBytes: number, exceeded: () => Error): Transform {
  let totalBytes = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      totalBytes += chunk.length;
      if (totalBytes > maxBytes) done(exceeded());
      else done(null, chunk);
    },
  });
}

function tooLarge(message: string): ApiError {
  return new ApiError("payload_too_large", message);
}

function uploadError(error: unknown): unknown {
  if (error instanceof ApiError || error instanceof MachineError) return error;
  // The rest are errors of gzip or tar.
  return new ApiError("bad_request", `The upload is not a gzipped tar: ${String(error)}`);
}

function resolvePath({ path: target, cwd }: { path: string; cwd?: string | undefined }): string {
  return path.posix.resolve(sandboxCwd, cwd ?? "", target);
}
