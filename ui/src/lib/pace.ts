//! Limits how often changes are shown: not more often than the pace, and not while nobody can see them.
//!
//! The clock and the timer are arguments: a test runs on virtual time.

/** Not quite four times a second. */
export const PACE_MS = 275;

export interface Timers {
  now(): number;
  after(ms: number, run: () => void): () => void;
}

export const realTimers: Timers = {
  now: () => performance.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
};

export class Pace {
  #last = Number.NEGATIVE_INFINITY;
  #waiting = false;
  #cancel: (() => void) | undefined;
  #hidden = false;

  constructor(
    readonly show: () => void,
    readonly everyMs = PACE_MS,
    readonly timers: Timers = realTimers,
  ) {}

  /** Something is ready to be shown. */
  push(): void {
    this.#waiting = true;
    this.#arm();
  }

  set hidden(hidden: boolean) {
    this.#hidden = hidden;
    if (hidden) {
      this.#cancel?.();
      this.#cancel = undefined;
    } else {
      this.#arm();
    }
  }

  #arm(): void {
    if (!this.#waiting || this.#hidden || this.#cancel) return;
    const due = Math.min(this.#last - this.timers.now(), 0) + this.everyMs;
    if (due <= 0) this.#flush();
    else this.#cancel = this.timers.after(due, () => this.#flush());
  }

  #flush(): void {
    this.#cancel = undefined;
    this.#waiting = false;
    this.#last = this.timers.now();
    this.show();
  }
}

const due: (() => void)[] = [];

/** The beat for everything that changes by itself: changes that come at about the same time are drawn once. */
export const beat = new Pace(() => {
  for (const show of due.splice(0)) show();
});

/** Shows something on the next beat. */
export function onBeat(show: () => void): void {
  due.push(show);
  beat.push();
}

export const nextBeat = (): Promise<void> => new Promise(onBeat);

/** Shows only the newest of many values, on beats. */
export function paced<T>(show: (value: T) => void): (value: T) => void {
  let newest: { value: T } | undefined;
  return (value) => {
    if (!newest)
      onBeat(() => {
        if (newest) show(newest.value);
        newest = undefined;
      });
    newest = { value };
  };
}
