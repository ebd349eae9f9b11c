//! The name of each screen, for the window's title and the screen reader.

import type { Route, Tab } from './route-parse';
import { t } from './text';

export const TAB_WORDS: Record<Tab, string> = {
  overview: t('tab.overview'),
  files: t('tab.files'),
  versions: t('tab.versions'),
  storage: t('tab.storage'),
  settings: t('nav.settings'),
};

export function titleOf(route: Route): string {
  switch (route.screen) {
    case 'home':
      return t('nav.home');
    case 'place':
      return route.tab === 'overview' ? route.name : t('title.tab', { tab: TAB_WORDS[route.tab], name: route.name });
    case 'add':
      return route.what === null ? t('add.what') : route.what === 'folder' ? t('folder.add.title') : t('add.title');
    case 'activity':
      return t('nav.activity');
    case 'settings':
      return t('nav.settings');
    case 'help':
      return t('nav.help');
  }
}
