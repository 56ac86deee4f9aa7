/** Works through a list, a few at a time, while there is time to start another. Returns how many were left. */
export async function inParallel<T>(
  items: readonly T[],
  atOnce: number,
  hasTime: () => boolean,
  work: (item: T) => Promise<void>,
): Promise<number> {
  const rest = [...items];
  const lane = async () => {
    while (hasTime()) {
      const item = rest.shift();
      if (item === undefined) return;
      await work(item);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, lane));
  return rest.length;
}
