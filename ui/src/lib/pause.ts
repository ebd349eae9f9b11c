//! How long uploads can be paused at once.

export const HOUR_MS = 3_600_000;

/** Until eight in the morning of the next day. */
export function untilMorning(now: Date): number {
  return new Date(now.getFullYear(), now.getMonth(), now.getDate() + 1, 8).getTime() - now.getTime();
}
