//! Which rows of a long list are drawn: the visible ones, and some around them.

export interface Rows {
  first: number;
  /** One past the last. */
  end: number;
  /** Height of the rows above and below, in pixels. */
  above: number;
  below: number;
}

/** The row that Tab reaches: the last one that was moved to, if it is drawn, otherwise the first visible one. */
export function tabStop(at: number, rows: Rows, rowPx: number, top: number): number {
  return at >= rows.first && at < rows.end ? at : Math.min(Math.ceil(top / rowPx), rows.end - 1);
}

/** `top` is how far the list's beginning is above the visible part. */
export function visible(count: number, rowPx: number, top: number, heightPx: number, spare = 12): Rows {
  const clamp = (row: number) => Math.max(0, Math.min(count, row));
  const first = clamp(Math.floor(top / rowPx) - spare);
  const end = Math.max(first, clamp(Math.ceil((top + heightPx) / rowPx) + spare));
  return { first, end, above: first * rowPx, below: (count - end) * rowPx };
}
