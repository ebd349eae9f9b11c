//! The one catalogue of texts. What is asked for by a wrong key does not compile.

import catalogue from '$texts';

type Catalogue = typeof catalogue;
export type TextKey = keyof Catalogue;
type Plural = { one: string; other: string };

const plurals = new Intl.PluralRules('en');
const numbers = new Intl.NumberFormat('en');

/**
 * A text with its `{placeholders}` filled in. `count` decides which form of a plural it is. What is built has most texts in place of
 * their keys.
 */
export function t(key: TextKey, values: Record<string, string | number> = {}): string {
  const entry: string | Plural = (catalogue as Partial<Catalogue>)[key] ?? key;
  let text;
  if (typeof entry === 'string') {
    text = entry;
  } else {
    const count = Number(values['count'] ?? 0);
    text = plurals.select(count) === 'one' ? entry.one : entry.other;
  }
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => {
    const value = values[name];
    return value === undefined ? whole : typeof value === 'number' ? numbers.format(value) : value;
  });
}
