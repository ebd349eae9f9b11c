//! One live region for all that is said aloud. What comes at short intervals replaces what was not said yet.

class Announcer {
  text = $state('');
  #timer: ReturnType<typeof setTimeout> | undefined;

  say(text: string): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => (this.text = text), 400);
  }
}

export const announcer = new Announcer();
