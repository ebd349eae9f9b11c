//! The current screen, from the address's fragment: reloading and going back work, and none of it reaches the daemon.

import type { Screen } from '../backend/shapes';

/** The tabs of a place. */
export const TABS = ['overview', 'files', 'versions', 'storage', 'settings'] as const;
export type Tab = (typeof TABS)[number];

export type Route =
  | { screen: 'home' }
  | { screen: 'place'; name: string; tab: Tab }
  /** What to add: still open, a new drive, a drive that exists already, or the files of a store. */
  | { screen: 'add'; what: 'drive' | 'existing' | 'folder' | null }
  | { screen: 'activity'; place: string | null }
  | { screen: 'settings' }
  | { screen: 'help'; page: string | null };

/** Earlier versions had other addresses; they still lead to what a person meant. */
export function parse(hash: string): Route {
  const [screen = '', name = '', rest = ''] = hash
    .replace(/^#\/?/, '')
    .split('/')
    .map((part) => decode(part));
  switch (screen) {
    case 'place':
      return placeRoute(name, TABS.find((tab) => tab === rest) ?? 'overview');
    case 'drive':
      return placeRoute(name, 'overview');
    case 'keep':
      return placeRoute(name, 'files');
    case 'add':
      return { screen, what: name === 'drive' || name === 'existing' ? name : null };
    case 'add-folder':
      return { screen: 'add', what: 'folder' };
    case 'activity':
      return { screen, place: name || null };
    case 'help':
      return { screen, page: name || null };
    case 'settings':
      return { screen };
    default:
      return { screen: 'home' };
  }
}

const placeRoute = (name: string, tab: Tab): Route => (name ? { screen: 'place', name, tab } : { screen: 'home' });

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function href(route: Route): string {
  const of = (name: string | null) => (name ? `/${encodeURIComponent(name)}` : '');
  switch (route.screen) {
    case 'home':
      return '#/';
    case 'place':
      return `#/place${of(route.name)}/${route.tab}`;
    case 'add':
      return route.what === 'folder' ? '#/add-folder' : `#/add${of(route.what)}`;
    case 'activity':
      return `#/activity${of(route.place)}`;
    case 'help':
      return `#/help${of(route.page)}`;
    case 'settings':
      return '#/settings';
  }
}

/** A place's own address. */
export const hrefOf = (name: string, tab: Tab = 'overview'): string => href({ screen: 'place', name, tab });

/** The screen that the daemon means. */
export function routeOf(to: Screen): Route {
  switch (to.screen) {
    case 'drive':
      return placeRoute(to.name, 'overview');
    case 'keep':
      return placeRoute(to.name ?? '', 'files');
    case 'add':
      return { screen: 'add', what: 'drive' };
    case 'settings':
      return { screen: 'settings' };
    case 'drives':
    case 'forks':
      return { screen: 'home' };
  }
}
