import { describe, expect, it } from 'vitest';
import type { DirectoryEntry } from '../src/backend/shapes';
import { changes, coveredBy, move, parent, ROWS, rows, stateOf, tick, toggle, type Wishes } from '../src/lib/tree';

const entry = (name: string, kind: DirectoryEntry['kind'] = 'directory'): DirectoryEntry =>
  ({ name, kind, bytes: 1, local_bytes: 0, state: 'online_only', pinned_by: null }) as DirectoryEntry;
const none: Wishes = new Map();

describe('boxes', () => {
  it('stand between on and off where something below is kept', () => {
    expect(tick('a', ['a/b'], none)).toBe('some');
    expect(tick('a/b', ['a/b'], none)).toBe('on');
    expect(tick('a/b/c', ['a/b'], none)).toBe('on');
    expect(tick('ab', ['a'], none)).toBe('off');
    expect(tick('anything', [''], none)).toBe('on');
  });

  it('are taken back by being used again', () => {
    const once = toggle('a', [], none);
    expect(changes(once)).toEqual({ keep: ['a'], release: [] });
    expect(changes(toggle('a', [], once))).toEqual({ keep: [], release: [] });
    const released = toggle('a', ['a'], none);
    expect(changes(released)).toEqual({ keep: [], release: ['a'] });
    expect(changes(toggle('a', ['a'], released))).toEqual({ keep: [], release: [] });
  });

  it('cover what is below them', () => {
    const below = toggle('a/b', [], none);
    const above = toggle('a', [], below);
    expect(changes(above)).toEqual({ keep: ['a'], release: [] });
    expect(coveredBy('a/b', [], above)).toBe('a');
    expect(coveredBy('a', [], above)).toBeUndefined();
  });

  it('let go what is pinned below them', () => {
    const wishes = toggle('a', ['a', 'a/b'], none);
    expect(changes(wishes).release.sort()).toEqual(['a', 'a/b']);
    expect(tick('a', ['a', 'a/b'], wishes)).toBe('off');
  });
});

describe('the tree', () => {
  const known = new Map([
    ['', [entry('a'), entry('z', 'file')]],
    ['a', [entry('b'), entry('c', 'file')]],
  ]);

  it('shows what is open', () => {
    expect(rows(known, new Set()).map((row) => row.path)).toEqual(['a', 'z']);
    const shown = rows(known, new Set(['a']));
    expect(shown.map((row) => [row.path, row.level, row.position, row.count])).toEqual([
      ['a', 1, 1, 2],
      ['a/b', 2, 1, 2],
      ['a/c', 2, 2, 2],
      ['z', 1, 2, 2],
    ]);
  });

  it('shows of a directory with very many files the first, and how many more there are', () => {
    const files = Array.from({ length: ROWS + 3 }, (_, index) => entry(`f${index}`, 'file'));
    const many = new Map([
      ['', [entry('a'), entry('z', 'file')]],
      ['a', files],
    ]);
    const shown = rows(many, new Set(['a']));
    expect(shown.length).toBe(2 + ROWS + 1);
    const more = shown[ROWS + 1];
    expect([more?.more, more && more.count - more.position, more?.level]).toEqual(['a', 3, 2]);
    expect(move('ArrowLeft', ROWS + 1, shown)).toEqual({ to: 0 });
    expect(shown.at(-1)?.path).toBe('z');
    expect(rows(many, new Set(['a']), new Map([['a', 2 * ROWS]])).length).toBe(2 + files.length);
  });

  it('is moved through by keys', () => {
    const shut = rows(known, new Set());
    const open = rows(known, new Set(['a']));
    expect(move('ArrowRight', 0, shut)).toEqual({ open: 'a' });
    expect(move('ArrowRight', 0, open)).toEqual({ to: 1 });
    expect(move('ArrowLeft', 0, open)).toEqual({ close: 'a' });
    expect(move('ArrowLeft', 2, open)).toEqual({ to: 0 });
    expect(move('ArrowRight', 3, open)).toBeUndefined();
    expect(move('ArrowDown', 3, open)).toEqual({ to: 3 });
    expect(move('ArrowUp', 0, open)).toEqual({ to: 0 });
    expect(move('End', 0, open)).toEqual({ to: 3 });
    expect(move('x', 0, open)).toBeUndefined();
    expect([parent('a/b'), parent('a'), parent('')]).toEqual(['a', '', undefined]);
  });

  it('tells how a directory is once all that is below it was looked at', () => {
    const file = (name: string, state: DirectoryEntry['state']) => ({ ...entry(name, 'file'), state });
    const inside = (...files: DirectoryEntry[]) =>
      new Map([
        ['a', [{ ...entry('b'), state: null }]],
        ['a/b', files],
      ]);
    const directory = { ...entry('a'), state: null };
    const how = (...files: DirectoryEntry[]) => stateOf('a', directory, inside(...files));
    expect(how(file('x', 'online_only'), file('y', 'online_only'))).toBe('online_only');
    expect(how(file('x', 'available'))).toBe('available');
    expect(how(file('x', 'available'), file('y', 'online_only'))).toBe('partly');
    // Not looked at, or empty: nothing is said of it.
    expect(how()).toBeNull();
    expect(stateOf('a', directory, new Map())).toBeNull();
    expect(stateOf('a', { ...directory, state: 'always_keep' }, inside(file('x', 'available')))).toBe('always_keep');
  });
});
