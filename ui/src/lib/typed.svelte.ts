//! What a form begins with, and what was typed over it.

import { untrack } from 'svelte';

const same = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other);

/** Shows what holds, also when that changes elsewhere, until something else is typed. */
export class Typed<T> {
  value = $state.raw() as T;
  changed = $derived.by(() => !same(this.value, this.holds()));

  constructor(readonly holds: () => T) {
    let before = (this.value = untrack(holds));
    $effect(() => {
      const now = holds();
      if (
        same(
          untrack(() => this.value),
          before,
        )
      )
        this.value = now;
      before = now;
    });
  }
}
