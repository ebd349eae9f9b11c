//! Lets through the newest of many values, at most so often, and none while nobody can see them.
//!
//! The clock and the timer are arguments: a test runs on virtual time.

/** Not quite four times a second. */
export const PACE_MS = 260;

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

export class Pace<T> {
  #last = Number.NEGATIVE_INFINITY;
  #waiting: { value: T } | undefined;
  #cancel: (() => void) | undefined;
  #hidden = false;

  constructor(
    readonly show: (value: T) => void,
    readonly everyMs = PACE_MS,
    readonly timers: Timers = realTimers,
  ) {}

  push(value: T): void {
    this.#waiting = { value };
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

  stop(): void {
    this.#waiting = undefined;
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #arm(): void {
    if (!this.#waiting || this.#hidden || this.#cancel) return;
    const due = this.#last + this.everyMs - this.timers.now();
    if (due <= 0) this.#flush();
    else this.#cancel = this.timers.after(due, () => this.#flush());
  }

  #flush(): void {
    this.#cancel = undefined;
    const waiting = this.#waiting;
    if (!waiting) return;
    this.#waiting = undefined;
    this.#last = this.timers.now();
    this.show(waiting.value);
  }
}
