//! How to draw a tone and a state's icon.

import type { Tone } from '../backend/shapes';
import { isIcon, type IconName } from '../parts/Icon.svelte';

const OF_TONE: Record<Tone, IconName> = {
  safe: 'check',
  busy: 'sync',
  waiting: 'clock',
  attention: 'alert',
  quiet: 'closed',
};

export function iconOf(state: { icon: string; tone: Tone }): IconName {
  return isIcon(state.icon) ? state.icon : OF_TONE[state.tone];
}
