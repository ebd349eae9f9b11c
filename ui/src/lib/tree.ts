//! The directory tree of Keep offline: what is ticked, what that would change, and moving through it by keys.

import type { DirectoryEntry } from '../backend/shapes';

export type Tick = 'on' | 'off' | 'some';

/** What a person has chosen so far, by path: `true` to keep, `false` to stop keeping. Nothing of it is done yet. */
export type Wishes = ReadonlyMap<string, boolean>;

export const ROOT = '';

export function join(directory: string, name: string): string {
  return directory === ROOT ? name : `${directory}/${name}`;
}

export function parent(path: string): string | undefined {
  if (path === ROOT) return undefined;
  const cut = path.lastIndexOf('/');
  return cut < 0 ? ROOT : path.slice(0, cut);
}

function within(path: string, directory: string): boolean {
  return directory === ROOT || path === directory || path.startsWith(`${directory}/`);
}

/** Whether a path is kept because of a pin at it or above it. */
export function kept(path: string, pins: readonly string[]): boolean {
  return pins.some((pin) => within(path, pin));
}

/** The state of a path's box, with the choices so far. */
export function tick(path: string, pins: readonly string[], wishes: Wishes): Tick {
  const left = after(pins, wishes);
  if (kept(path, left)) return 'on';
  return left.some((pin) => within(pin, path)) ? 'some' : 'off';
}

/** The pins after the choices. */
export function after(pins: readonly string[], wishes: Wishes): string[] {
  const left = pins.filter((pin) => wishes.get(pin) !== false);
  return [...new Set([...left, ...[...wishes].filter(([, keep]) => keep).map(([path]) => path)])];
}

/** The choices after the box of `path` was used. Using a box twice undoes the choice. */
export function toggle(path: string, pins: readonly string[], wishes: Wishes): Wishes {
  const next = new Map(wishes);
  if (tick(path, pins, wishes) === 'on') {
    next.delete(path);
    // Choices below it, which it had covered, go too.
    for (const [other, keep] of wishes) if (keep && within(other, path)) next.delete(other);
    for (const pin of pins) if (within(pin, path)) next.set(pin, false);
  } else {
    for (const other of wishes.keys()) if (within(other, path)) next.delete(other);
    if (!pins.includes(path)) next.set(path, true);
  }
  return next;
}

/** The directory above that keeps this path: a pin covers everything below it, so the box of this path cannot be used. */
export function coveredBy(path: string, pins: readonly string[], wishes: Wishes): string | undefined {
  return after(pins, wishes).find((pin) => pin !== path && within(path, pin));
}

export function changes(wishes: Wishes): { keep: string[]; release: string[] } {
  const of = (wanted: boolean) => [...wishes].filter(([, keep]) => keep === wanted).map(([path]) => path);
  return { keep: of(true), release: of(false) };
}

/** How many entries of a directory are shown at first. */
export const ROWS = 500;

export interface Row {
  path: string;
  entry: DirectoryEntry;
  level: number;
  open: boolean;
  /** Its position among the entries of its directory. */
  position: number;
  count: number;
  /** The directory whose further entries this row shows: the row itself is no file. */
  more?: string;
}

const REST = { name: '\0', kind: 'file' } as DirectoryEntry;

/** The rows to show, from the known entries of each open directory, as many as `limits` allows. */
export function rows(
  known: ReadonlyMap<string, readonly DirectoryEntry[]>,
  open: ReadonlySet<string>,
  limits: ReadonlyMap<string, number> = new Map(),
): Row[] {
  const found: Row[] = [];
  const walk = (directory: string, level: number) => {
    const entries = known.get(directory) ?? [];
    const most = limits.get(directory) ?? ROWS;
    entries.slice(0, most).forEach((entry, index) => {
      const path = join(directory, entry.name);
      const isOpen = entry.kind === 'directory' && open.has(path);
      found.push({ path, entry, level, open: isOpen, position: index + 1, count: entries.length });
      if (isOpen) walk(path, level + 1);
    });
    const count = entries.length;
    if (count > most)
      found.push({
        path: join(directory, REST.name),
        entry: REST,
        level,
        open: false,
        position: most,
        count,
        more: directory,
      });
  };
  walk(ROOT, 1);
  return found;
}

/** The state of an entry. An open directory's own state says nothing, so it follows from its entries; other states come from the daemon. */
export function stateOf(
  path: string,
  entry: DirectoryEntry,
  known: ReadonlyMap<string, readonly DirectoryEntry[]>,
): DirectoryEntry['state'] {
  const inside = entry.state ? undefined : known.get(path);
  if (!inside?.length) return entry.state;
  const states = new Set(inside.map((one) => stateOf(join(path, one.name), one, known)));
  if (states.has(null)) return null;
  return states.size === 1 ? ([...states][0] ?? null) : 'partly';
}

export type Move = { to: number } | { open: string } | { close: string } | undefined;

/** What a key does in a tree, as people know it from file managers. */
export function move(key: string, at: number, shown: readonly Row[]): Move {
  const row = shown[at];
  if (!row) return shown.length > 0 ? { to: 0 } : undefined;
  switch (key) {
    case 'ArrowDown':
      return { to: Math.min(at + 1, shown.length - 1) };
    case 'ArrowUp':
      return { to: Math.max(at - 1, 0) };
    case 'Home':
      return { to: 0 };
    case 'End':
      return { to: shown.length - 1 };
    case 'ArrowRight':
      if (row.entry.kind !== 'directory') return undefined;
      return row.open ? { to: Math.min(at + 1, shown.length - 1) } : { open: row.path };
    case 'ArrowLeft': {
      if (row.open) return { close: row.path };
      const above = shown.findIndex((other) => other.path === parent(row.path));
      return above < 0 ? undefined : { to: above };
    }
    default:
      return undefined;
  }
}
