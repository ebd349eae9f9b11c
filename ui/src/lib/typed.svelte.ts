//! A form's initial value, and what was typed over it.

import { untrack } from 'svelte';

const same = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other);

/** Shows the current value, and follows its changes, until something else is typed. */
export class Typed<T> {
  value = $state.raw() as T;
  /** How often it has followed: a field with its own text then starts again. */
  followed = $state(0);
  changed = $derived.by(() => !same(this.value, this.holds()));

  constructor(readonly holds: () => T) {
    let before = (this.value = untrack(holds));
    $effect.pre(() => {
      const now = holds();
      untrack(() => {
        if (same(this.value, before) && !same(before, now)) {
          this.value = now;
          this.followed += 1;
        }
        before = now;
      });
    });
  }
}
