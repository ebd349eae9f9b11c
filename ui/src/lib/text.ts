//! The one catalogue of texts. A wrong key does not compile.

import catalogue from '$texts';

type Catalogue = typeof catalogue;
export type TextKey = keyof Catalogue;
type Plural = { one: string; other: string };

const plurals = new Intl.PluralRules('en');
const numbers = new Intl.NumberFormat('en');

/**
 * A text with its `{placeholders}` filled in. `count` selects the form of a plural. In the built pages most keys have been replaced with
 * their texts.
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
