//! The last minutes of two rates, for the graph.

export interface Sample {
  atMs: number;
  up: number;
  down: number;
}

/** Two minutes. */
export const SHOWN_MS = 120_000;

/** The bytes sent and received up to a moment. */
export interface Counted {
  atMs: number;
  sent: number;
  received: number;
}

/** The rates between the counts, in bytes per second. Counters that restarted (the drive was opened again) give none. */
export function samples(counted: readonly Counted[]): Sample[] {
  return counted.slice(1).flatMap((now, index) => {
    const before = counted[index];
    if (!before || now.atMs <= before.atMs) return [];
    const seconds = (now.atMs - before.atMs) / 1000;
    const [up, down] = [(now.sent - before.sent) / seconds, (now.received - before.received) / seconds];
    return up < 0 || down < 0 ? [] : [{ atMs: now.atMs, up, down }];
  });
}

/** The counts that are still shown, with the newest added. */
export function counted(before: readonly Counted[], now: Counted): Counted[] {
  return [...before.filter((one) => now.atMs - one.atMs <= SHOWN_MS), now];
}

/** The top of the scale: a round figure that no sample exceeds. */
export function ceiling(shown: readonly Sample[]): number {
  const most = Math.max(16 * 1024, ...shown.flatMap((sample) => [sample.up, sample.down]));
  const power = 2 ** Math.floor(Math.log2(most));
  return [1, 1.25, 1.5, 2].map((step) => step * power).find((step) => step >= most) ?? 2 * power;
}

/** A line through the samples in a box, as the `points` of a polyline. */
export function points(
  shown: readonly Sample[],
  value: (sample: Sample) => number,
  box: { nowMs: number; top: number; width: number; height: number },
): string {
  return shown
    .map((sample) => {
      const x = box.width * (1 - (box.nowMs - sample.atMs) / SHOWN_MS);
      const y = box.height * (1 - value(sample) / box.top);
      return `${x.toFixed(1)},${y.toFixed(1)}`;
    })
    .join(' ');
}
