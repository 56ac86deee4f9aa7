const SERVICE = "https://vercel.com/api";

/**
 * A `fetch` for the SDK's `fetch` option, which sends what is meant for Vercel's API to `url`. All else in the
 * request stays as it is, the SDK's `dispatcher` too: it keeps quiet log streams open.
 */
export function localFetch(url: string): typeof fetch {
  const local = `${url.replace(/\/+$/, "")}/api`;
  const moved = (address: string) =>
    address.startsWith(SERVICE) ? local + address.slice(SERVICE.length) : address;
  return (input, init) => {
    if (input instanceof Request) return fetch(new Request(moved(input.url), input), init);
    return fetch(moved(String(input)), init);
  };
}
