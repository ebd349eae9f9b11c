//! Which rows of a long list are drawn: those that can be seen, and some around them.

export interface Rows {
  first: number;
  /** One past the last. */
  end: number;
  /** Height of what is above and below, in pixels. */
  above: number;
  below: number;
}

/** The row that Tab comes to: the one that was moved to last while it is drawn, else the first that can be seen. */
export function tabStop(at: number, rows: Rows, rowPx: number, top: number): number {
  return at >= rows.first && at < rows.end ? at : Math.min(Math.ceil(top / rowPx), rows.end - 1);
}

/** `top` is how far the list's beginning is above the top of what can be seen. */
export function visible(count: number, rowPx: number, top: number, heightPx: number, spare = 12): Rows {
  const clamp = (row: number) => Math.max(0, Math.min(count, row));
  const first = clamp(Math.floor(top / rowPx) - spare);
  const end = Math.max(first, clamp(Math.ceil((top + heightPx) / rowPx) + spare));
  return { first, end, above: first * rowPx, below: (count - end) * rowPx };
}
