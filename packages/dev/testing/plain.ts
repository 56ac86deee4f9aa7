/** A handler that does not stream. */
export async function handler(event: { rawPath: string }): Promise<unknown> {
  switch (event.rawPath) {
    case "/healthz":
      return { ok: true };
    case "/binary":
      return {
        statusCode: 203,
        headers: { "Content-Type": "image/png" },
        cookies: ["a=1"],
        body: Buffer.from([0, 255, 1]).toString("base64"),
        isBase64Encoded: true,
      };
    default:
      throw new Error("no such path");
  }
}
