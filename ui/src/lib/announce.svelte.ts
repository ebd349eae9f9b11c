//! One live region for everything that is announced. Messages that come quickly replace those that were not announced yet.

import type { Failure } from '../backend/shapes';

class Announcer {
  text = $state('');
  /** A failure that came after the person had moved on: it is shown until it was read. */
  late = $state.raw<Failure | null>(null);
  #timer: ReturnType<typeof setTimeout> | undefined;

  say(text: string): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => (this.text = text), 400);
  }
}

export const announcer = new Announcer();
