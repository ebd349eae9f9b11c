//! One live region for all that is said aloud. What comes at short intervals replaces what was not said yet.

import type { Failure } from '../backend/shapes';

class Announcer {
  text = $state('');
  /** What has failed after whoever had asked for it went on: it is shown until it was read. */
  late = $state.raw<Failure | null>(null);
  #timer: ReturnType<typeof setTimeout> | undefined;

  say(text: string): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => (this.text = text), 400);
  }
}

export const announcer = new Announcer();
