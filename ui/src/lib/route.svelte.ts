//! Where one is, and going elsewhere. Every way leads by here: links, the app around the page, and the browser's own back and forward.

import { href, parse, type Route } from './route-parse';

export { href, type Route };

export class Router {
  current = $state.raw<Route>(parse(location.hash));
  /** Where one wanted to go while that has to be asked about. */
  asked = $state.raw<Route | null>(null);
  /** Whether that has to be asked about now. */
  holds = () => false;
  /** The place of this entry in the history, which each of them remembers. */
  #at = 0;

  constructor() {
    const { at } = (history.state ?? {}) as { at?: number };
    this.#arrive(at ?? 0);
    addEventListener('hashchange', () => this.#moved());
  }

  go(route: Route): void {
    location.hash = href(route);
  }

  /** Goes where one wanted to, all the same. */
  leave(): void {
    const to = this.asked;
    this.asked = null;
    if (!to) return;
    this.holds = () => false;
    this.go(to);
  }

  #moved(): void {
    const to = parse(location.hash);
    const { at } = (history.state ?? {}) as { at?: number };
    if (href(to) !== href(this.current) && this.holds()) {
      this.asked = to;
      // The entry that was come to is left again, whichever way led to it; what was come from is told as no change.
      history.go(at === undefined ? -1 : this.#at - at);
      return;
    }
    this.#arrive(at ?? this.#at + 1);
    if (href(to) !== href(this.current)) this.current = to;
  }

  #arrive(at: number): void {
    this.#at = at;
    history.replaceState({ at }, '');
  }
}

export const router = new Router();
