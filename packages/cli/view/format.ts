import { styleText } from "node:util";

type Style = Parameters<typeof styleText>[0];

/** Coloured if the output is a terminal that wants it (`NO_COLOR`, `FORCE_COLOR`). */
export function paint(style: Style, text: string): string {
  return styleText(style, text, { stream: process.stdout });
}

export function formatDuration(ms: number): string {
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** One unit, for lists. */
export function formatAge(ms: number): string {
  const seconds = Math.max(Math.floor(ms / 1000), 0);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min`;
  return seconds < 86_400 ? `${Math.floor(seconds / 3_600)} h` : `${Math.floor(seconds / 86_400)} d`;
}

export function formatUsd(usd: number): string {
  return `$${usd.toFixed(usd > 0 && usd < 1 ? 4 : 2)}`;
}

export function formatStatus(status: string): string {
  if (status === "succeeded") return paint("green", status);
  if (status === "failed" || status === "timed_out") return paint("red", status);
  return status === "stopped" ? paint("yellow", status) : paint("cyan", status);
}

/** The first line of a text, cut to a number of characters. */
export function firstLine(text: string, max: number): string {
  const line = text.split("\n", 1)[0] ?? "";
  return shorten(line === text ? line : `${line} …`, max);
}

export function shorten(text: string, max: number): string {
  const characters = [...text];
  return characters.length > max ? `${characters.slice(0, Math.max(max - 1, 0)).join("")}…` : text;
}
