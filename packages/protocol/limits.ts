/**
 * Bytes of output and agent events in one output post. A post is stored as one table item, which stays below 200 KB
 * including the overhead of its chunks.
 */
export const batchMaxBytes = 144 * 1024;
export const batchMaxChunks = 1000;

/** One agent event as JSON. The runner keeps events far below this by cutting their texts. */
export const eventMaxBytes = 64 * 1024;
/** UTF-8 bytes kept of a text that the agent wrote. */
export const eventTextMaxBytes = 8 * 1024;
/** UTF-8 bytes kept of a tool's input or output. */
export const toolTextMaxBytes = 2 * 1024;
export const toolNameMaxBytes = 200;

/** UTF-16 units of the final answer. */
export const resultTextMaxLength = 4000;
/** UTF-16 units of an end post's `detail`. */
export const detailMaxLength = 4000;
export const branchMaxLength = 200;
export const signalMaxLength = 32;
export const nonceMinLength = 16;
export const nonceMaxLength = 128;
export const costMaxUsd = 1e6;

/** Becomes an argument of the next turn's agent, so it must not look like an option. */
export const conversationIdPattern = /^[A-Za-z0-9][\x21-\x7e]{0,199}$/;
export const commitPattern = /^[0-9a-f]{40,64}$/;

/** How many processes of earlier turns are reported. */
export const leftoversMax = 20;
export const programNameMaxLength = 64;
