const vercelApi = "https://vercel.com/api";

const previewDomain = /^https?:\/\/(sbx-[0-9a-f]+-\d+)\.(?:vercel\.run|localhost(?::\d+)?)(?=\/|\?|$)/;

/**
 * A `fetch` for the SDK's `fetch` option that sends requests for Vercel's API, and for the ports of sandboxes
 * (`domain()`), to `url`. Options stay as they are,
 * including the SDK's `dispatcher`, which keeps idle log streams open.
 */
export function localFetch(url: string): typeof fetch {
  const base = url.replace(/\/+$/, "");
  const localAddress = (address: string) => {
    if (address.startsWith(vercelApi)) return `${base}/api${address.slice(vercelApi.length)}`;
    return address.replace(previewDomain, `${base}/_route/$1`);
  };
  return (input, init) => {
    if (input instanceof Request) return fetch(new Request(localAddress(input.url), input), init);
    return fetch(localAddress(String(input)), init);
  };
}
