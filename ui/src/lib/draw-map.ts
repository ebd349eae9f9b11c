//! Draws the chunk map. Each state has its own shape as well as its colour.

import type { ChunkMap } from '../backend/shapes';
import type { CellState, Grid } from './chunkmap';

export type Colours = Record<CellState, string> & { paper: string };

/** The colours of the current look: light, dark, more contrast. */
export function colours(of: Element): Colours {
  const style = getComputedStyle(of);
  const value = (name: string) => style.getPropertyValue(name).trim();
  return {
    absent: value('--cell-absent'),
    cached: value('--cell-cached'),
    pinned: value('--cell-pinned'),
    dirty: value('--cell-dirty'),
    uploading: value('--cell-uploading'),
    failed: value('--cell-failed'),
    empty: value('--cell-empty'),
    paper: value('--surface'),
  };
}

export function drawCell(
  context: CanvasRenderingContext2D,
  x: number,
  y: number,
  side: number,
  state: CellState,
  paint: Colours,
): void {
  context.clearRect(x, y, side, side);
  context.fillStyle = paint[state];
  const inset = Math.max(1, Math.round(side * 0.3));
  switch (state) {
    case 'absent':
      // A dot.
      context.fillRect(x + inset, y + inset, side - 2 * inset, side - 2 * inset);
      break;
    case 'cached':
      context.fillRect(x, y, side, side);
      break;
    case 'pinned':
      // A full cell with a window.
      context.fillRect(x, y, side, side);
      context.fillStyle = paint.paper;
      context.fillRect(x + inset, y + inset, side - 2 * inset, side - 2 * inset);
      break;
    case 'empty':
      // Only the edge.
      context.fillRect(x, y, side, side);
      context.clearRect(x + 1, y + 1, side - 2, side - 2);
      break;
    case 'dirty':
      // The lower half, cut diagonally.
      triangle(context, [x, y], [x, y + side], [x + side, y + side]);
      break;
    case 'uploading':
      triangle(context, [x + side / 2, y], [x, y + side], [x + side, y + side]);
      break;
    case 'failed':
      context.fillRect(x, y, side, side);
      context.strokeStyle = paint.paper;
      context.lineWidth = Math.max(1, side / 6);
      context.beginPath();
      context.moveTo(x + 1, y + 1);
      context.lineTo(x + side - 1, y + side - 1);
      context.moveTo(x + side - 1, y + 1);
      context.lineTo(x + 1, y + side - 1);
      context.stroke();
      break;
  }
}

type Point = [number, number];

function triangle(context: CanvasRenderingContext2D, ...[a, b, c]: [Point, Point, Point]): void {
  context.beginPath();
  context.moveTo(...a);
  context.lineTo(...b);
  context.lineTo(...c);
  context.fill();
}

/** Draws the cells with these indices, each at its place in the grid. */
export function drawCells(
  context: CanvasRenderingContext2D,
  map: ChunkMap,
  grid: Grid,
  indices: readonly number[],
  paint: Colours,
): void {
  const side = grid.pitch - grid.gap;
  for (const index of indices) {
    const state = map.cells[index];
    if (state === undefined) continue;
    const x = (index % grid.columns) * grid.pitch;
    const y = Math.floor(index / grid.columns) * grid.pitch;
    drawCell(context, x, y, side, state, paint);
  }
}
