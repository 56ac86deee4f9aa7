type Asynchronous<T> = { [Name in keyof T]: (...given: never[]) => Promise<unknown> };

/**
 * Something whose methods are all asynchronous, made by the first call of one: what an invocation does not need
 * is not loaded for it. Methods that are there already are called as they are.
 */
export function lazily<T extends Asynchronous<T>>(make: () => Promise<T>, there: Partial<T> = {}): T {
  let made: Promise<T> | undefined;
  const call = async (name: keyof T, given: never[]): Promise<unknown> => {
    made ??= make();
    const { [name]: method } = await made;
    return await method.apply(await made, given);
  };
  return new Proxy({} as T, {
    // Whoever awaits it looks for a `then`.
    get: (_, name) =>
      name === "then"
        ? undefined
        : (there[name as keyof T] ?? ((...given: never[]) => call(name as keyof T, given))),
  });
}
