//! Where the cells of the chunk map are drawn, and what they add up to.

import type { ChunkMap, DriveStatus } from '../backend/shapes';

export type CellState = ChunkMap['cells'][number];

/** In the order of the legend: what needs a person first. */
export const CELL_STATES: readonly CellState[] = [
  'failed',
  'dirty',
  'uploading',
  'pinned',
  'cached',
  'absent',
  'empty',
];

export interface Grid {
  columns: number;
  rows: number;
  /** Side of a cell with its gap, in device pixels. */
  pitch: number;
  gap: number;
}

/** The grid that shows so many cells in so many device pixels, with cells as large as fit `maxPitch`. */
export function grid(cells: number, width: number, maxPitch: number): Grid {
  // Smaller, and the forms of cells are not told apart.
  const least = Math.ceil(maxPitch * 0.4);
  // As wide as the place, and not so low that it is a line.
  const wanted = Math.sqrt((cells === 0 ? 1 : cells) * 3.2);
  const pitch = Math.max(least, Math.min(maxPitch, Math.floor(width / wanted)));
  const columns = Math.max(1, Math.floor(width / pitch));
  const gap = Math.max(1, Math.round(pitch / 7));
  return { columns, rows: Math.max(1, Math.ceil(cells / columns)), pitch, gap };
}

/** Indices of cells that differ, so that only they are drawn again. All of them, where the map has another form. */
export function changed(before: ChunkMap | null, after: ChunkMap): number[] {
  const same = before?.cells.length === after.cells.length && before.cell_bytes === after.cell_bytes;
  const all = [...after.cells.keys()];
  return same ? all.filter((index) => before.cells[index] !== after.cells[index]) : all;
}

export interface Total {
  state: CellState;
  cells: number;
}

export function totals(map: ChunkMap): Total[] {
  const counts = new Map<CellState, number>();
  for (const cell of map.cells) counts.set(cell, (counts.get(cell) ?? 0) + 1);
  return CELL_STATES.map((state) => ({ state, cells: counts.get(state) ?? 0 }));
}

/**
 * Bytes of that state, as the rest of the page has them: a cell shows the most remarkable of what it stands for, however little that
 * is, so that cells add up to far more.
 */
export function totalBytes({ state, cells }: Total, map: ChunkMap, drive: DriveStatus): number {
  const { cache, cached_bytes, size_bytes, unpushed_bytes, used_bytes } = drive;
  switch (state) {
    case 'absent':
      // Of what files use, where that is known.
      return Math.max(0, (used_bytes || size_bytes) - cached_bytes);
    case 'pinned':
      return cache.pinned_bytes;
    case 'cached':
      return cache.metadata_bytes + cache.evictable_bytes;
    default:
      // Nothing else tells what is empty, or damaged while nothing waits.
      return Math.min(cells * map.cell_bytes, (state !== 'empty' && unpushed_bytes) || size_bytes);
  }
}

export interface Run {
  state: CellState;
  /** The first cell. */
  from: number;
  cells: number;
}

/** Cells that follow each other and are alike, as one: the map as a table. */
export function runs(map: ChunkMap): Run[] {
  const found: Run[] = [];
  map.cells.forEach((state, index) => {
    const last = found.at(-1);
    if (last?.state === state) last.cells += 1;
    else found.push({ state, from: index, cells: 1 });
  });
  return found;
}

/** Which cell is at a place in the canvas; `undefined` outside of all. */
export function cellAt(x: number, y: number, { columns, pitch }: Grid, cells: number): number | undefined {
  const column = Math.floor(x / pitch);
  if (x < 0 || y < 0 || column >= columns) return undefined;
  const index = Math.floor(y / pitch) * columns + column;
  return index < cells ? index : undefined;
}
