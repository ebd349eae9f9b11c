import { describe, expect, it } from 'vitest';
import { fileState, pathOf } from '../src/lib/folders';
import {
  decisionsOf,
  lineOf,
  needsOf,
  placeOfDrive,
  placeOfFolder,
  placesOf,
  progressOf,
  roomOf,
  unsentOf,
} from '../src/lib/places';
import { lookOf } from '../src/lib/states';
import { card, folder, forked } from './fake';

const now = new Date('2026-11-20T14:00:00');
const MIB = 1024 ** 2;

const STATES = [
  ...['Ready', 'Connecting', 'Syncing', 'Offline', 'Paused', 'Recovering'],
  ...['Read-only', 'Conflict', 'Needs attention', 'Closed', 'A later one'],
];

describe('the state of a place', () => {
  it('is green only if everything is uploaded', () => {
    for (const state of STATES) {
      expect(lookOf(state, true).tone).not.toBe('safe');
      expect(lookOf(state, false).tone === 'safe').toBe(state === 'Ready');
    }
  });

  it('is ochre only if something is only on this computer', () => {
    for (const state of STATES) {
      expect(lookOf(state, false).tone).not.toBe('waiting');
      expect(lookOf(state, true).tone === 'waiting').toBe(state === 'Offline');
    }
  });

  it('has an icon and a word of its own, also if it is not known yet', () => {
    const looks = STATES.map((state) => lookOf(state, false));
    expect(new Set(looks.map((look) => look.icon)).size).toBe(STATES.length);
    expect(new Set(looks.map((look) => look.word)).size).toBe(STATES.length);
    expect(lookOf('Ready', true)).toEqual(lookOf('Syncing', true));
    expect(lookOf('A later one', false)).toEqual({ word: 'A later one', icon: 'info', tone: 'quiet' });
  });
});

describe('the list of places', () => {
  it('has drives and folders by name, whatever their state', () => {
    const places = placesOf([card('work'), card('archive')], [folder('scans'), folder('docs')]);
    expect(places.map(({ name, kind }) => `${name} ${kind}`)).toEqual([
      ...['archive drive', 'docs folder', 'scans folder', 'work drive'],
    ]);
  });

  it('says below the state what is only here, or since when nothing is', () => {
    const line = (changes: object) => lineOf({ ...placeOfDrive(card('a')), ...changes }, now);
    expect(line({ unsentBytes: 5 * MIB })).toBe('5 MiB only here');
    expect(line({ unsentBytes: 5 * MIB, etaS: 240 })).toBe('5 MiB only here · 4 min left');
    expect(line({ unsentBytes: 1, unsentIsKnown: false })).toBe('Some changes only here');
    expect(line({ safeSince: '2026-11-20T12:30:00' })).toBe('All uploaded, last at 12:30');
    expect(line({})).toBe('Nothing to upload');
  });

  it('says how much is here, and never zero for something unknown', () => {
    const place = placeOfDrive(card('a'));
    expect(roomOf({ ...place, localBytes: MIB, wholeBytes: 5 * MIB })).toEqual({ here: '1 MiB', of: 'of 5 MiB' });
    expect(roomOf({ ...place, localBytes: MIB })).toEqual({ here: '1 MiB', of: 'here' });
  });

  it('offers for a folder what works in its state', () => {
    const acts = (changes: object) => placeOfFolder(folder('docs', changes)).acts;
    expect(acts({ mountpoint: null, state: 'Closed' })).toEqual(['open']);
    expect(acts({})).toEqual(['pause', 'close']);
    expect(acts({ dirty_bytes: 1 })).toEqual(['upload_now', 'pause', 'close']);
    expect(acts({ paused: true, dirty_bytes: 1 })).toEqual(['resume', 'close']);
    expect(acts({ read_only: true })).toEqual(['close']);
  });

  it('does not promise that a folder is uploaded while something waits or may wait', () => {
    const queue = { waiting: 0, uploading: 0, failed: 0, in_use: 1 };
    const last_uploaded_at = '2026-11-20T12:30:00';
    for (const changes of [{ queue }, { unsent: true }, { dirty_bytes: 5 }]) {
      const place = placeOfFolder(folder('docs', { last_uploaded_at, ...changes }));
      expect([place.safeSince, place.state.word]).toEqual([null, 'Syncing']);
      expect(lineOf(place, now)).toMatch(/only here$/);
    }
    const safe = placeOfFolder(folder('docs', { last_uploaded_at }));
    expect([safe.safeSince, safe.state.word]).toEqual([last_uploaded_at, 'Ready']);
  });
});

describe('what is only on this computer', () => {
  const of = (...places: ReturnType<typeof placeOfDrive>[]) => unsentOf(places, { paused_until: null }, now);
  const waits = (name: string, changes: object = {}) => ({ ...placeOfDrive(card(name, 5 * MIB)), ...changes });

  it('is one figure for drives and folders', () => {
    const both = of(waits('a'), placeOfFolder(folder('b', { dirty_bytes: 3 * MIB })));
    expect(both.title).toBe('8 MiB only on this computer');
    expect(both.tone).toBe('waiting');
  });

  it('has no figure if one of them is not counted', () => {
    expect(of(waits('a'), waits('b', { unsentIsKnown: false })).title).toBe('Some changes only on this computer');
  });

  it('says what each place does about it, and names few of them', () => {
    const first = waits('a', { upRate: 5 * MIB, etaS: 240 });
    const second = waits('b', { state: lookOf('Offline', true) });
    expect(of(first, second).text).toBe('a is uploading at 5 MiB/s, 4 min left. b waits for its server.');
    expect(of(first, second, waits('c'), waits('d')).text).toMatch(/2 more places have changes to upload\.$/);
  });

  it('is green only if nothing is', () => {
    expect(of(placeOfDrive({ ...card('a'), safe_since: '2026-11-20T12:30:00' }))).toEqual({
      tone: 'safe',
      title: 'Everything is uploaded',
      text: 'Last uploaded at 12:30.',
    });
    expect(of(placeOfDrive(card('a')), placeOfFolder(folder('b', { unsent: true }))).tone).toBe('waiting');
  });

  it('has a rate and a time only if they are known', () => {
    expect(progressOf({ upRate: 0, etaS: null }, null)).toEqual({ done: '', pace: '' });
    expect(progressOf({ upRate: MIB, etaS: 60 }, { done_bytes: MIB, total_bytes: 3 * MIB })).toEqual({
      done: '1 MiB of 3 MiB',
      pace: '1 MiB/s · 1 min left',
    });
  });
});

describe('what needs a person', () => {
  const state = (icon: string, word: string) => ({ state: { word, tone: 'attention', icon } as const });

  it('is only what cannot heal by itself', () => {
    const offline = { ...card('a', 5), state: { word: 'Offline', tone: 'waiting', icon: 'offline' } as const };
    const failed = { waiting: 0, uploading: 0, failed: 3, in_use: 0 };
    expect(needsOf([offline], [forked('a')], [folder('b', { state: 'Offline', queue: failed })])).toEqual([]);
  });

  it('is each fork of a drive, decided on its versions', () => {
    const needs = needsOf([card('work')], [forked('work', 'desk', 'attic')], []);
    expect(needs.map(({ text, tab }) => [text, tab])).toEqual([
      ['desk has taken over the drive. Both versions are kept.', 'versions'],
      ['attic has taken over the drive. Both versions are kept.', 'versions'],
    ]);
    // The overview says so before the list of drives has come.
    const alone = needsOf([{ ...card('work'), ...state('fork', 'Conflict') }], [], []);
    expect(alone.map(({ title }) => title)).toEqual(['work has two versions']);
  });

  it('is a login, where it can be given at once', () => {
    const cards = [{ ...card('work'), ...state('alert', 'Needs attention'), reason: 'Its store refuses access.' }];
    const [need] = needsOf(cards, [{ ...forked('work'), needs_login: true }], []);
    expect([need?.login, need?.verb, need?.text]).toEqual(['s3://bucket', 'Log in', 'Its store refuses access.']);
    expect(needsOf(cards, [forked('work')], [])[0]?.login).toBeNull();
  });

  it('is what a folder holds back', () => {
    const docs = folder('docs', { state: 'Conflict', held_deletions: 1204, conflicts: 1 });
    expect(decisionsOf(docs)).toBe(2);
    expect(needsOf([], [], [docs]).map(({ title }) => title)).toEqual([
      '1,204 files of docs were deleted on the server',
      '1 file of docs was changed in two places',
    ]);
    expect(placeOfFolder(docs).decisions).toBe(2);
    const refused = folder('docs', { state: 'Needs attention', reason: 'access refused', needs_login: true });
    expect(needsOf([], [], [refused])[0]?.login).toBe(refused.url);
  });

  it('is in the order of the places', () => {
    const docs = folder('docs', { conflicts: 1 });
    const needs = needsOf([card('archive'), card('work')], [forked('work', 'desk'), forked('archive', 'desk')], [docs]);
    expect(needs.map(({ place }) => place)).toEqual(['archive', 'docs', 'work']);
  });
});

describe('a file of a folder that is not uploaded yet', () => {
  const file = (changes: object) =>
    fileState(
      {
        ...{ path: 'a', change: 'upload', bytes: 4 * MIB, sent_bytes: MIB, state: 'waiting' },
        ...{ reason: null, next_try_at: null, since: '2026-11-20T10:00:00' },
        ...changes,
      },
      now,
    );

  it('says how far it is, or what it waits for', () => {
    expect(file({}).word).toBe('Waiting to upload');
    expect(file({ state: 'uploading' }).word).toBe('1 MiB of 4 MiB');
    expect(file({ state: 'in_use' })).toMatchObject({ word: 'When you close it', tone: 'quiet' });
    expect(file({ state: 'failed', next_try_at: '2026-11-20T14:08:00' }).word).toBe('Failed, next try 14:08');
    expect(file({ state: 'failed' }).word).toBe('Failed');
    expect(file({ change: 'remove', bytes: 0 }).word).toBe('Delete on the server');
    expect(file({ state: 'uploading', change: 'move', bytes: 0 }).word).toBe('Move or rename');
  });

  it('is shown by its name, and by where it is', () => {
    expect(pathOf('Finance/2026/Budget.ods')).toEqual({ name: 'Budget.ods', directory: 'Finance/2026' });
    expect(pathOf('Budget.ods')).toEqual({ name: 'Budget.ods', directory: '' });
  });
});
