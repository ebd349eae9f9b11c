//! The kinds of activity, and how each looks.

import type { ActivityKind, ActivityRow, Tone } from '../backend/shapes';
import type { IconName } from '../parts/Icon.svelte';
import { t } from './text';

export interface Look {
  kind: ActivityKind | 'other';
  word: string;
  icon: IconName;
  tone: Tone;
}

export const KINDS: readonly Look[] = [
  { kind: 'opened', word: t('activity.opened'), icon: 'folder', tone: 'quiet' },
  { kind: 'closed', word: t('activity.closed'), icon: 'closed', tone: 'quiet' },
  { kind: 'uploaded', word: t('activity.uploaded'), icon: 'up', tone: 'quiet' },
  { kind: 'collected', word: t('activity.collected'), icon: 'broom', tone: 'quiet' },
  { kind: 'snapshot', word: t('activity.snapshot'), icon: 'camera', tone: 'quiet' },
  { kind: 'pin', word: t('activity.pin'), icon: 'keep', tone: 'busy' },
  { kind: 'conflict', word: t('activity.conflict'), icon: 'fork', tone: 'waiting' },
  { kind: 'network', word: t('activity.network'), icon: 'offline', tone: 'waiting' },
  { kind: 'drive', word: t('activity.added'), icon: 'drive', tone: 'quiet' },
  { kind: 'folder', word: t('activity.folder'), icon: 'folder', tone: 'quiet' },
  { kind: 'deletions', word: t('activity.deletions'), icon: 'trash', tone: 'waiting' },
  { kind: 'attention', word: t('activity.attention'), icon: 'alert', tone: 'attention' },
];

const OTHER: Look = { kind: 'other', word: t('activity.other'), icon: 'info', tone: 'quiet' };

/**
 * The list with `first`, the newest rows, on top; a page holds `page` rows. A row in the range of `first` that is missing there has been
 * replaced since: uploads that follow each other are one row.
 */
export function renewed(list: ActivityRow[], first: ActivityRow[], page: number): ActivityRow[] {
  const last = first.at(-1)?.id ?? 0;
  if (first[0]?.id === list[0]?.id) return list;
  // If more has happened than a page holds, the rows between are fetched when they are scrolled to.
  if (first.length < page || last > (list[0]?.id ?? 0)) return first;
  return [...first, ...list.filter((row) => row.id < last)];
}

/** A later daemon may know more kinds. */
export function lookOf(kind: string): Look {
  return KINDS.find((one) => one.kind === kind) ?? OTHER;
}
