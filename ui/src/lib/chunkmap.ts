//! Where to draw the cells of the chunk map, and what they add up to.

import type { ChunkMap } from '../backend/shapes';

export type CellState = ChunkMap['cells'][number];

/** In the order of the legend: states that need a person first. */
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

/** The grid for this many cells in this many device pixels, with cells as large as `maxPitch` allows. */
export function grid(cells: number, width: number, maxPitch: number): Grid {
  // In smaller cells the shapes could not be distinguished.
  const least = Math.ceil(maxPitch * 0.4);
  // As wide as there is space, but not so low that it becomes a line.
  const wanted = Math.sqrt((cells === 0 ? 1 : cells) * 3.2);
  const pitch = Math.max(least, Math.min(maxPitch, Math.floor(width / wanted)));
  const columns = Math.max(1, Math.floor(width / pitch));
  const gap = Math.max(1, Math.round(pitch / 7));
  return { columns, rows: Math.max(1, Math.ceil(cells / columns)), pitch, gap };
}

/** Indices of cells that differ, so that only they are redrawn. All indices, if the map's dimensions differ. */
export function changed(before: ChunkMap | null, after: ChunkMap): number[] {
  const same = before?.cells.length === after.cells.length && before.cell_bytes === after.cell_bytes;
  const all = [...after.cells.keys()];
  return same ? all.filter((index) => before.cells[index] !== after.cells[index]) : all;
}

export interface Total {
  state: CellState;
  bytes: number;
}

/** The bytes in each state. Not what the cells add up to: a cell shows its most remarkable state, however few of its bytes have it. */
export function totals(map: ChunkMap): Total[] {
  return CELL_STATES.map((state) => ({ state, bytes: map.bytes[state] }));
}

export interface Run {
  state: CellState;
  /** The first cell. */
  from: number;
  cells: number;
}

/** Joins equal neighbouring cells: the map as a table. */
export function runs(map: ChunkMap): Run[] {
  const found: Run[] = [];
  map.cells.forEach((state, index) => {
    const last = found.at(-1);
    if (last?.state === state) last.cells += 1;
    else found.push({ state, from: index, cells: 1 });
  });
  return found;
}

/** The cell at a place in the canvas; `undefined` outside all cells. */
export function cellAt(x: number, y: number, { columns, pitch }: Grid, cells: number): number | undefined {
  const column = Math.floor(x / pitch);
  if (x < 0 || y < 0 || column >= columns) return undefined;
  const index = Math.floor(y / pitch) * columns + column;
  return index < cells ? index : undefined;
}
