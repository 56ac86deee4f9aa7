const vercelApi = "https://vercel.com/api";

/**
 * A `fetch` for the SDK's `fetch` option that sends requests for Vercel's API to `url`. Options stay as they are,
 * including the SDK's `dispatcher`, which keeps idle log streams open.
 */
export function localFetch(url: string): typeof fetch {
  const local = `${url.replace(/\/+$/, "")}/api`;
  const localAddress = (address: string) =>
    address.startsWith(vercelApi) ? local + address.slice(vercelApi.length) : address;
  return (input, init) => {
    if (input instanceof Request) return fetch(new Request(localAddress(input.url), input), init);
    return fetch(localAddress(String(input)), init);
  };
}
