import { beforeEach, describe, expect, it } from 'vitest';

/** A browser's history: its entries, each with a state of its own, and where in it one is. */
class Entries {
  all: { hash: string; state: unknown }[] = [{ hash: '#/drives', state: null }];
  at = 0;

  get state() {
    return this.all[this.at]?.state ?? null;
  }

  replaceState(state: unknown) {
    Object.assign(this.all[this.at] ?? {}, { state });
  }

  push(hash: string) {
    if (hash === this.all[this.at]?.hash) return;
    this.all = [...this.all.slice(0, this.at + 1), { hash, state: null }];
    this.#come(this.at + 1);
  }

  go(by: number) {
    this.#come(this.at + by);
  }

  #come(at: number) {
    this.at = at;
    dispatchEvent(new Event('hashchange'));
  }
}

let entries = new Entries();
const window = new EventTarget();
Object.assign(globalThis, {
  addEventListener: window.addEventListener.bind(window),
  dispatchEvent: window.dispatchEvent.bind(window),
  location: {
    get hash() {
      return entries.all[entries.at]?.hash ?? '';
    },
    set hash(hash: string) {
      entries.push(hash);
    },
  },
});
Object.defineProperty(globalThis, 'history', { get: () => entries, configurable: true });
const { router, Router } = await import('../src/lib/route.svelte');

describe('a screen that may not be left by accident', () => {
  beforeEach(() => {
    router.holds = () => false;
  });

  const screens = () => [router.current.screen, router.asked?.screen ?? null];

  it('stays whichever way leads elsewhere, until that was confirmed', () => {
    router.go({ screen: 'add' });
    expect(screens()).toEqual(['add', null]);
    router.holds = () => true;
    // A link, or the tray.
    location.hash = '#/settings';
    expect([...screens(), location.hash]).toEqual(['add', 'settings', '#/add']);
    // The browser's own ways, also more than one at once.
    router.asked = null;
    history.go(-1);
    expect([...screens(), location.hash]).toEqual(['add', 'drives', '#/add']);
    history.go(1);
    expect([...screens(), location.hash]).toEqual(['add', 'settings', '#/add']);
    router.leave();
    expect([...screens(), location.hash]).toEqual(['settings', null, '#/settings']);
    // Nothing of the way there is lost.
    history.go(-2);
    expect(screens()).toEqual(['drives', null]);
    history.go(1);
    expect(screens()).toEqual(['add', null]);
  });

  it('is no different after the page was loaded again', () => {
    entries = new Entries();
    entries.push('#/activity');
    entries.push('#/add');
    const again = new Router();
    again.holds = () => true;
    history.go(-1);
    expect([again.current.screen, again.asked?.screen, location.hash]).toEqual(['add', 'activity', '#/add']);
  });
});
