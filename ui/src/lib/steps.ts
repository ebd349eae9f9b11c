//! What to do about a failure, on a page.

import type { Failure, Step } from '../backend/shapes';

/** Its steps; only words if it has no steps, as with a failure in the page itself. */
export function stepsOf(failure: Pick<Failure, 'action' | 'on_screen'> | null): Step[] {
  if (failure?.on_screen?.length) return failure.on_screen;
  return failure?.action ? [{ text: failure.action }] : [];
}
