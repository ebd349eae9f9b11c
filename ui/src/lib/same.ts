//! Unchanged values keep their identity, so that only changes are drawn.

/** The new list, with the old objects wherever they are equal. The old list itself, if all are. */
export function kept<T>(before: readonly T[], after: readonly T[], key: (value: T) => string): T[] {
  const known = new Map(before.map((value) => [key(value), value]));
  const merged = after.map((value) => {
    const old = known.get(key(value));
    return old !== undefined && JSON.stringify(old) === JSON.stringify(value) ? old : value;
  });
  const same = merged.length === before.length && merged.every((value, index) => value === before[index]);
  return same ? (before as T[]) : merged;
}
