import { beforeEach, describe, expect, it } from 'vitest';
import type { Route } from '../src/lib/route-parse';

/** A browser's history: its entries, each with a state of its own, and where in it one is. */
class Entries {
  all: { hash: string; state: unknown }[] = [{ hash: '#/', state: null }];
  at = 0;

  get state() {
    return this.all[this.at]?.state ?? null;
  }

  replaceState(state: unknown, _title: string, hash: string) {
    Object.assign(this.all[this.at] ?? {}, { state, hash });
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
let window = new EventTarget();
Object.assign(globalThis, {
  addEventListener: (...all: Parameters<EventTarget['addEventListener']>) => window.addEventListener(...all),
  dispatchEvent: (event: Event) => window.dispatchEvent(event),
  location: {
    get hash() {
      return entries.all[entries.at]?.hash ?? '';
    },
    set hash(hash: string) {
      entries.push(hash);
    },
  },
});
/** A window of its own that has been to these addresses before the page was loaded again. */
function openAt(...hashes: string[]) {
  window = new EventTarget();
  entries = new Entries();
  for (const hash of hashes) entries.push(hash);
  entries.all.forEach((entry, at) => (entry.state = { at }));
}

Object.defineProperty(globalThis, 'history', { get: () => entries, configurable: true });
const { router, Router } = await import('../src/lib/route.svelte');
const { href, parse, routeOf, TABS } = await import('../src/lib/route-parse');
const { titleOf } = await import('../src/lib/titles');

describe('a screen that may not be left by accident', () => {
  beforeEach(() => {
    router.holds = () => false;
  });

  const screens = () => [router.current.screen, router.asked?.screen ?? null];

  it('stays whichever way leads elsewhere, until that was confirmed', () => {
    router.go({ screen: 'add', what: null });
    expect(screens()).toEqual(['add', null]);
    router.holds = () => true;
    // A link, or the tray.
    location.hash = '#/settings';
    expect([...screens(), location.hash]).toEqual(['add', 'settings', '#/add']);
    // The browser's own ways, also more than one at once.
    router.asked = null;
    history.go(-1);
    expect([...screens(), location.hash]).toEqual(['add', 'home', '#/add']);
    history.go(1);
    expect([...screens(), location.hash]).toEqual(['add', 'settings', '#/add']);
    router.leave();
    expect([...screens(), location.hash]).toEqual(['settings', null, '#/settings']);
    // Nothing of the way there is lost.
    history.go(-2);
    expect(screens()).toEqual(['home', null]);
    history.go(1);
    expect(screens()).toEqual(['add', null]);
  });

  it('is no different after the page was loaded again', () => {
    openAt('#/activity', '#/add');
    const again = new Router();
    again.holds = () => true;
    history.go(-1);
    expect([again.current.screen, again.asked?.screen, location.hash]).toEqual(['add', 'activity', '#/add']);
  });
});

describe('every screen', () => {
  const routes: Route[] = [
    { screen: 'home' },
    ...TABS.map((tab) => ({ screen: 'place', name: 'a b/ü%', tab }) as const),
    { screen: 'add', what: null },
    { screen: 'add', what: 'drive' },
    { screen: 'add', what: 'existing' },
    { screen: 'add', what: 'folder' },
    { screen: 'activity', place: null },
    { screen: 'activity', place: 'x' },
    { screen: 'settings' },
    { screen: 'help', page: null },
    { screen: 'help', page: 'offline' },
  ];

  it('has an address of its own, and is found by it', () => {
    for (const route of routes) expect(parse(href(route))).toEqual(route);
    expect(new Set(routes.map(href)).size).toBe(routes.length);
  });

  it('says its name in the title', () => {
    for (const route of routes) expect(titleOf(route)).not.toBe('');
    expect(titleOf({ screen: 'place', name: 'work', tab: 'overview' })).toBe('work');
    expect(titleOf({ screen: 'place', name: 'work', tab: 'files' })).toBe('work, Files');
  });

  it.each([
    ['#/drives', '#/'],
    ['#/drive/a%20b', '#/place/a%20b/overview'],
    ['#/drive/%', '#/place/%25/overview'],
    ['#/drive', '#/'],
    ['#/keep/x', '#/place/x/files'],
    ['#/keep', '#/'],
    ['#/forks', '#/'],
    ['#/place/x', '#/place/x/overview'],
    ['#/place/x/nonsense', '#/place/x/overview'],
    ['#/place', '#/'],
    ['#/add/nonsense', '#/add'],
    ['', '#/'],
    ['#/nowhere', '#/'],
  ])('%s leads to %s', (old, now) => {
    expect(href(parse(old))).toBe(now);
  });

  it('is one that the daemon may mean', () => {
    expect(href(routeOf({ screen: 'drive', name: 'x' }))).toBe('#/place/x/overview');
    expect(href(routeOf({ screen: 'keep', name: 'x' }))).toBe('#/place/x/files');
    expect(href(routeOf({ screen: 'keep', name: null }))).toBe('#/');
    expect(href(routeOf({ screen: 'forks' }))).toBe('#/');
    expect(href(routeOf({ screen: 'add' }))).toBe('#/add/drive');
  });
});

describe('an address of an earlier version', () => {
  it('is replaced by the new one, and Back leads to where the person was', () => {
    openAt('#/activity');
    const again = new Router();
    location.hash = '#/drive/work';
    expect(location.hash).toBe('#/place/work/overview');
    expect(again.current).toEqual({ screen: 'place', name: 'work', tab: 'overview' });
    history.go(-1);
    expect(again.current.screen).toBe('activity');
    history.go(1);
    expect(location.hash).toBe('#/place/work/overview');
  });

  it('is replaced when the page is loaded with it', () => {
    openAt('#/keep/work');
    expect(new Router().current).toEqual({ screen: 'place', name: 'work', tab: 'files' });
    expect(location.hash).toBe('#/place/work/files');
  });

  it('is one that Back skips where a screen does not exist for a place', () => {
    openAt('#/place/docs/storage');
    const again = new Router();
    again.replace({ screen: 'place', name: 'docs', tab: 'overview' });
    expect(location.hash).toBe('#/place/docs/overview');
    history.go(-1);
    expect(again.current.screen).toBe('home');
  });
});
