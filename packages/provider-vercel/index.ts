export { createVercelProvider, type ProviderOptions } from "./vercel.ts";
