//! The one table of the states of places: how each looks, and when. No state is shown by its colour alone.

import type { Tone } from '../backend/shapes';
import type { IconName } from '../parts/Icon.svelte';
import { t } from './text';

export interface Look {
  word: string;
  icon: IconName;
  tone: Tone;
}

/** By the daemon's names. */
const TABLE: Record<string, Look> = {
  Ready: { word: t('state.ready'), icon: 'ok', tone: 'safe' },
  Syncing: { word: t('state.syncing'), icon: 'up', tone: 'busy' },
  Connecting: { word: t('state.connecting'), icon: 'sync', tone: 'busy' },
  Recovering: { word: t('state.recovering'), icon: 'recover', tone: 'busy' },
  Offline: { word: t('state.offline'), icon: 'offline', tone: 'quiet' },
  Paused: { word: t('state.paused'), icon: 'pause', tone: 'quiet' },
  'Read-only': { word: t('state.read_only'), icon: 'lock', tone: 'quiet' },
  Conflict: { word: t('state.conflict'), icon: 'fork', tone: 'attention' },
  'Needs attention': { word: t('state.needs_attention'), icon: 'alert', tone: 'attention' },
  Closed: { word: t('state.closed'), icon: 'closed', tone: 'quiet' },
};

/** How a place looks. Green is only for a place with nothing unsent; ochre means that something is only on this computer and waits. */
export function lookOf(state: string, unsent: boolean): Look {
  if (unsent && state === 'Ready') return TABLE['Syncing'] as Look;
  // A later daemon may know more states.
  const look = TABLE[state] ?? { word: state, icon: 'info', tone: 'quiet' };
  return unsent && state === 'Offline' ? { ...look, tone: 'waiting' } : look;
}
