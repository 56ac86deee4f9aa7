const messageMax = 1000;
const framesMax = 12;
const causesMax = 4;
const errorsMax = 3;

/**
 * The parts of an error that are safe to log: name, message, stack, cause and a few codes. Errors of SDKs also carry the
 * request with its headers and the response with its body; these are left out.
 */
export function describeError(error: unknown, causes = causesMax): Record<string, unknown> {
  if (!(error instanceof Error)) return { name: typeof error, message: cut(String(error)) };
  const { name, message, stack = "", cause } = error;
  const errors = error instanceof AggregateError ? error.errors.slice(0, errorsMax) : [];
  return {
    name,
    message: cut(message),
    ...codesOf(error),
    stack: framesOf(stack),
    ...(cause !== undefined && causes > 0 && { cause: describeError(cause, causes - 1) }),
    ...(errors.length > 0 && causes > 0 && { errors: errors.map((one) => describeError(one, causes - 1)) }),
  };
}

/** The fields by which AWS, Vercel, Node and Concierge classify errors. */
function codesOf(error: Error): Record<string, unknown> {
  const { code, kind, $metadata, response } = error as Error & Partial<Record<string, unknown>>;
  const { httpStatusCode, requestId } = fieldsOf($metadata);
  const codes = { code, kind, status: httpStatusCode ?? fieldsOf(response).status, awsRequestId: requestId };
  const plain = ([, value]: [string, unknown]) => typeof value === "string" || typeof value === "number";
  return Object.fromEntries(Object.entries(codes).filter(plain));
}

function fieldsOf(value: unknown): Partial<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? value : {};
}

/** Only the frames: the first lines of a stack repeat the message. */
function framesOf(stack: string): string[] {
  return stack
    .split("\n")
    .filter((line) => /^ +at /.test(line))
    .slice(0, framesMax)
    .map((line) => line.trim());
}

function cut(text: string): string {
  return text.length > messageMax ? `${text.slice(0, messageMax)}…` : text;
}
