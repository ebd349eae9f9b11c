//! Where one is, and going elsewhere.

import { href, parse, type Route } from './route-parse';

export { href, type Route };

class Router {
  current = $state.raw<Route>(parse(location.hash));

  constructor() {
    addEventListener('hashchange', () => {
      this.current = parse(location.hash);
    });
  }

  go(route: Route): void {
    location.hash = href(route);
  }
}

export const router = new Router();
