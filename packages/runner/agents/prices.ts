/** What a model call is charged for. The four kinds do not overlap. */
export interface Tokens {
  input: number;
  cached: number;
  cacheWrite: number;
  output: number;
}

/** Dollars per million tokens. */
type Price = Tokens;

const price = (input: number, cached: number, cacheWrite: number, output: number): Price => ({
  input,
  cached,
  cacheWrite,
  output,
});

/**
 * List prices, November 2026 (platform.claude.com/docs/en/about-claude/pricing, developers.openai.com/api/docs/pricing),
 * for short contexts at the standard tier. The first entry that a model's name starts with applies.
 */
export const prices: readonly (readonly [name: string, price: Price])[] = [
  ["claude-fable-5-1", price(10, 0.25, 12.5, 50)],
  ["claude-opus-5-5", price(4, 0.2, 5, 20)],
  ["claude-sonnet-5-5", price(2, 0.1, 2.5, 10)],
  ["claude-haiku-5-5", price(0.1, 0.01, 0.125, 0.5)],
  ["gpt-6.1-sol", price(2, 0.1, 2.5, 10)],
  ["gpt-6.1-terra", price(1, 0.05, 1.25, 5)],
  ["gpt-6-astra", price(10, 1, 12.5, 50)],
  ["gpt-6-sol", price(2, 0.2, 2.5, 10)],
  ["gpt-6-luna", price(0.1, 0.01, 0.125, 0.5)],
];

/** Undefined if the model is not in the table. */
export function costUsd(model: string, tokens: Tokens): number | undefined {
  const match = prices.find(([name]) => model.startsWith(name))?.[1];
  return match && charge(match, tokens);
}

/** For a model that is not in the table: the highest price, so that a budget is never exceeded unnoticed. */
export function highestCostUsd(tokens: Tokens): number {
  return Math.max(...prices.map(([, entry]) => charge(entry, tokens)));
}

function charge(rate: Price, { input, cached, cacheWrite, output }: Tokens): number {
  const millionths =
    input * rate.input + cached * rate.cached + cacheWrite * rate.cacheWrite + output * rate.output;
  return millionths / 1e6;
}
