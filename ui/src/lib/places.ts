//! Drives and folders in the same words: what a row of the list shows, what is only on this computer, and what needs a person.

import type { Card, DriveStatus, FolderStatus, Overview, Tone } from '../backend/shapes';
import type { IconName } from '../parts/Icon.svelte';
import { bytes, duration, moment, rate, sentence, unsent } from './format';
import type { Tab } from './route-parse';
import { lookOf, type Look } from './states';
import { t } from './text';

/** Slower rates are not worth showing. */
const NEWS_BYTES_PER_S = 1024;

/** What a person can do with a place. */
export type Act = 'open' | 'close' | 'pause' | 'resume' | 'upload_now';

export interface Place {
  kind: 'drive' | 'folder';
  name: string;
  state: Look;
  /** The kind of place, and where it is stored. */
  about: string;
  mountpoint: string | null;
  unsentBytes: number;
  unsentIsKnown: boolean;
  /** When everything was uploaded; null if something is not, or if that is not known. */
  safeSince: string | null;
  etaS: number | null;
  upRate: number;
  /** How much of what is being uploaded is done, from 0 to 1; null if nothing is, or if that is not known. */
  progress: number | null;
  /** Bytes on this computer, and of how many; 0 if that is not known. */
  localBytes: number;
  wholeBytes: number;
  acts: readonly Act[];
  /** How many decisions wait for a person. */
  decisions: number;
}

export function placeOfDrive(card: Card, forks = 0): Place {
  const { progress } = card;
  return {
    kind: 'drive',
    name: card.name,
    state: lookOf(card.state.word, card.unsent_bytes > 0),
    about: t('place.drive', { kind: card.kind }),
    mountpoint: card.mountpoint,
    unsentBytes: card.unsent_bytes,
    unsentIsKnown: card.unsent_is_known,
    safeSince: card.safe_since,
    etaS: card.eta_s,
    upRate: card.up_rate >= NEWS_BYTES_PER_S ? card.up_rate : 0,
    progress: progress && progress.total_bytes > 0 ? progress.done_bytes / progress.total_bytes : null,
    localBytes: card.local_bytes,
    wholeBytes: card.used_bytes,
    acts: card.actions,
    decisions: Math.max(forks, needsPerson(card) ? 1 : 0),
  };
}

const needsPerson = (card: Card): boolean => card.state.icon === 'fork' || card.state.icon === 'alert';

const KINDS: Record<FolderStatus['kind'], string> = {
  s3: t('card.kind.s3'),
  dav: t('card.kind.dav'),
  file: t('card.kind.file'),
};

export function placeOfFolder(folder: FolderStatus): Place {
  const decisions = decisionsOf(folder);
  const unsentNow = isUnsent(folder);
  return {
    kind: 'folder',
    name: folder.name,
    state: lookOf(folder.state, unsentNow),
    about: t('place.folder', { kind: KINDS[folder.kind] }),
    mountpoint: folder.mountpoint ?? null,
    unsentBytes: folder.dirty_bytes,
    unsentIsKnown: folder.dirty_bytes > 0 || !unsentNow,
    safeSince: unsentNow ? null : (folder.last_uploaded_at ?? null),
    etaS: null,
    upRate: 0,
    progress: null,
    localBytes: folder.cached_bytes + folder.dirty_bytes,
    wholeBytes: 0,
    acts: actsOf(folder),
    decisions: decisions + (decisions === 0 && folder.state === 'Needs attention' ? 1 : 0),
  };
}

/** Whether a folder may have something that is only on this computer. */
export const isUnsent = (folder: FolderStatus): boolean =>
  folder.unsent || folder.dirty_bytes > 0 || waiting(folder) > 0;

/** The files of a folder that are not uploaded yet. */
export const waiting = ({ queue }: Pick<FolderStatus, 'queue'>): number =>
  queue.waiting + queue.uploading + queue.failed + queue.in_use;

/** Deletions that are held are one decision. */
export const decisionsOf = (folder: FolderStatus): number => folder.conflicts + (folder.held_deletions > 0 ? 1 : 0);

function actsOf(folder: FolderStatus): readonly Act[] {
  if (!folder.mountpoint) return ['open'];
  const pausing: Act[] = folder.read_only ? [] : [folder.paused ? 'resume' : 'pause'];
  const upload: Act[] = isUnsent(folder) && !folder.paused && !folder.read_only ? ['upload_now'] : [];
  return [...upload, ...pausing, 'close'];
}

/** All places by name. */
export function placesOf(
  cards: readonly Card[],
  folders: readonly FolderStatus[],
  forks: ReadonlyMap<string, number> = new Map(),
): Place[] {
  const places = [...cards.map((card) => placeOfDrive(card, forks.get(card.name))), ...folders.map(placeOfFolder)];
  return places.sort((one, other) => one.name.localeCompare(other.name));
}

/** The line below a place's state: what is only here, or since when nothing is. */
export function lineOf(place: Place, now: Date): string {
  if (place.unsentBytes > 0 || !place.unsentIsKnown) {
    const here = t('place.unsent', { size: unsent(place.unsentBytes, place.unsentIsKnown && place.unsentBytes > 0) });
    return place.etaS === null ? here : t('place.unsent.eta', { here, left: left(place.etaS) });
  }
  if (place.safeSince) return t('place.safe_since', { time: moment(place.safeSince, now) });
  return t('drives.nothing_unsent');
}

const left = (seconds: number): string => t('eta', { time: duration(seconds) });

/** What is only on this computer, of all places. */
export interface Unsent {
  tone: Tone;
  title: string;
  text: string;
}

/** How many places a sentence names at most. */
const NAMED = 2;

export function unsentOf(places: readonly Place[], overview: Pick<Overview, 'paused_until'>, now: Date): Unsent {
  const waits = places.filter((place) => place.unsentBytes > 0 || !place.unsentIsKnown);
  if (waits.length > 0) {
    const known = waits.every((place) => place.unsentIsKnown);
    const size = waits.reduce((sum, place) => sum + place.unsentBytes, 0);
    const title = t('drives.unsent', { size: unsent(size, known) });
    const more = waits.length > NAMED ? [t('home.more', { count: waits.length - NAMED })] : [];
    const text = overview.paused_until
      ? t('pause.until', { time: moment(overview.paused_until, now) })
      : [...waits.slice(0, NAMED).map(doingOf), ...more].join(' ');
    return { tone: 'waiting', title, text };
  }
  const since = places.map((place) => place.safeSince ?? '').reduce((one, other) => (one > other ? one : other), '');
  const text = since ? t('home.safe.since', { time: moment(since, now) }) : t('home.safe.text');
  return { tone: 'safe', title: t('home.safe'), text };
}

/** One sentence on a place with something unsent. */
function doingOf(place: Place): string {
  const { name, upRate, etaS, state } = place;
  if (upRate > 0 && etaS !== null) return t('home.uploading.eta', { name, rate: rate(upRate), left: left(etaS) });
  if (upRate > 0) return t('home.uploading', { name, rate: rate(upRate) });
  if (state.icon === 'offline') return t('home.offline', { name });
  if (state.icon === 'pause') return t('home.paused', { name });
  if (state.icon === 'closed') return t('home.closed', { name });
  // A folder goes on with everything but the files that a person decides about.
  if (state.icon === 'alert' || (state.icon === 'fork' && place.kind === 'drive')) return t('home.decides', { name });
  return t('home.waits', { name });
}

/** Something that cannot heal by itself. */
export interface Need {
  /** Unique among all. */
  id: string;
  icon: IconName;
  title: string;
  text: string;
  place: string;
  tab: Tab;
  /** The store to log in to, if that is what is missing. */
  login: string | null;
  verb: string;
}

export function needsOf(
  cards: readonly Card[],
  drives: readonly DriveStatus[],
  folders: readonly FolderStatus[],
): Need[] {
  const byName = new Map(drives.map((drive) => [drive.name, drive]));
  const all = [
    ...cards.flatMap((card) => needsOfDrive(card, byName.get(card.name))),
    ...folders.flatMap((folder) => needsOfFolder(folder)),
  ];
  return all.sort((one, other) => one.place.localeCompare(other.place));
}

function needsOfDrive(card: Card, drive: DriveStatus | undefined): Need[] {
  const place = card.name;
  const forked = { icon: 'fork', place, tab: 'versions', login: null, verb: t('need.compare') } as const;
  const forks = drive?.forks ?? [];
  const needs: Need[] = forks.map((fork) => ({
    ...forked,
    id: `${place} ${fork.uuid}`,
    title: t('need.fork', { name: place }),
    text: t('need.fork.text', { device: fork.taken_by }),
  }));
  // The daemon's message may be ahead of the list of drives.
  if (card.state.icon === 'fork' && needs.length === 0) {
    const text = card.consequence ?? '';
    needs.push({ ...forked, id: `${place} fork`, title: t('need.fork', { name: place }), text });
  }
  if (card.state.icon === 'alert') {
    const login = drive?.needs_login && !drive.store.startsWith('file:') ? drive.store : null;
    needs.push({
      ...{ id: `${place} attention`, icon: 'alert', place, tab: 'overview', login },
      title: t('need.attention', { name: place }),
      text: [card.reason ?? '', card.consequence ?? ''].filter((part) => part !== '').join(' '),
      verb: login ? t('login.verb') : t('need.look'),
    });
  }
  return needs;
}

function needsOfFolder(folder: FolderStatus): Need[] {
  const place = folder.name;
  const needs: Need[] = [];
  const decide = { place, tab: 'versions', login: null } as const;
  if (folder.held_deletions > 0) {
    needs.push({
      ...{ ...decide, id: `${place} deletions`, icon: 'trash', verb: t('need.review') },
      title: t('need.deletions', { count: folder.held_deletions, name: place }),
      text: t('need.deletions.text'),
    });
  }
  if (folder.conflicts > 0) {
    needs.push({
      ...{ ...decide, id: `${place} conflicts`, icon: 'fork', verb: t('need.compare') },
      title: t('need.conflicts', { count: folder.conflicts, name: place }),
      text: t('need.conflicts.text'),
    });
  }
  if (folder.state === 'Needs attention' && needs.length === 0) {
    needs.push({
      ...{ id: `${place} attention`, icon: 'alert', place, tab: 'overview', login: loginOf(folder) },
      title: t('need.attention', { name: place }),
      text: [sentence(folder.reason ?? ''), folder.advice?.consequence ?? t('card.attention')]
        .filter((part) => part !== '')
        .join(' '),
      verb: loginOf(folder) ? t('login.verb') : t('need.look'),
    });
  }
  return needs;
}

/** Where to log in, if that is what a folder lacks. */
export const loginOf = (folder: FolderStatus): string | null =>
  folder.needs_login && folder.kind !== 'file' ? folder.url : null;

/** How much of a place is here. */
export function roomOf(place: Place): { here: string; of: string } {
  const here = bytes(place.localBytes);
  return { here, of: place.wholeBytes > 0 ? t('place.of', { size: bytes(place.wholeBytes) }) : t('place.here') };
}

/** How far an upload is, and how fast: both may be empty. */
export function progressOf(
  place: Pick<Place, 'upRate' | 'etaS'>,
  progress: { done_bytes: number; total_bytes: number } | null,
): { done: string; pace: string } {
  const done =
    progress && progress.done_bytes > 0
      ? t('progress.of', { done: bytes(progress.done_bytes), total: bytes(progress.total_bytes) })
      : '';
  const pace = [place.upRate > 0 ? rate(place.upRate) : '', place.etaS === null ? '' : left(place.etaS)];
  return { done, pace: pace.filter((part) => part !== '').join(' · ') };
}
