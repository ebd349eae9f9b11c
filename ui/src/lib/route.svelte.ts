//! The current screen, and going elsewhere. Every way comes through here: links, the app around the page, and the browser's back and
//! forward.

import { href, parse, type Route } from './route-parse';

export { href, hrefOf, type Route, type Tab } from './route-parse';

export class Router {
  current = $state.raw<Route>(parse(location.hash));
  /** The destination, while the person is asked whether to leave. */
  asked = $state.raw<Route | null>(null);
  /** Whether leaving needs a question now. */
  holds = () => false;
  /** The position of this entry in the history; each entry stores its own. */
  #at = 0;

  constructor() {
    const { at } = (history.state ?? {}) as { at?: number };
    this.#arrive(at ?? 0, this.current);
    addEventListener('hashchange', () => this.#moved());
  }

  go(route: Route): void {
    location.hash = href(route);
  }

  /** Goes there in place of the current screen, which Back then skips. */
  replace(route: Route): void {
    history.replaceState({ at: this.#at }, '', href(route));
    this.current = route;
  }

  /** Goes to the destination anyway. */
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
      // Return from the new entry, whichever way led there; returning to the current route counts as no change.
      history.go(at === undefined ? -1 : this.#at - at);
      return;
    }
    this.#arrive(at ?? this.#at + 1, to);
    if (href(to) !== href(this.current)) this.current = to;
  }

  /** An address of an earlier version, or one with a mistake, is replaced by the address of what is shown. */
  #arrive(at: number, route: Route): void {
    this.#at = at;
    history.replaceState({ at }, '', href(route));
  }
}

export const router = new Router();
