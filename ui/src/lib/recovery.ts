//! The recovery key, and how a person shows that it was written down: by typing two of its groups again.

export function groups(key: string): string[] {
  return key
    .trim()
    .split(/[\s-]+/)
    .filter((group) => group !== '');
}

/** Two different groups, never the first, which people remember from a glance. `random` is in [0, 1). */
export function asked(count: number, random: () => number): [number, number] {
  const from = count > 2 ? 1 : 0;
  const first = from + Math.floor(random() * (count - from));
  const second = from + Math.floor(random() * (count - from - 1));
  const other = second >= first ? second + 1 : second;
  return first < other ? [first, other] : [other, first];
}

export function matches(group: string | undefined, typed: string): boolean {
  return group !== undefined && typed.trim().toLowerCase() === group.toLowerCase();
}
