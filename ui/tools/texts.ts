//! Puts texts into the pages when they are built: `t('cancel')` becomes `"Cancel"`, which is then part of the markup instead of
//! something that is looked up and watched, and `t('eta', ...)` becomes `t("{time} left", ...)`. The page's own catalogue keeps only
//! what is asked for in another way.

import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Plugin } from 'vite';

/** A call with a literal key and nothing else; alone in an attribute, in the markup, and anywhere else. */
const PLAIN = /(?<!\$)(=?)\{t\('([a-z0-9_.]+)'\)\}|\bt\('([a-z0-9_.]+)'\)/g;
/** The beginning of a call with a literal key and values. */
const FILLED = /\bt\('([a-z0-9_.]+)', /g;

export type Catalogue = Record<string, string | { one: string; other: string }>;

/** The source with its plain texts in place. A key that is not in the catalogue stays, for the type checker to find. */
export function inline(source: string, catalogue: Catalogue): string {
  return source
    .replace(FILLED, (call, key: string) => (catalogue[key] ? `t(${JSON.stringify(catalogue[key])}, ` : call))
    .replace(PLAIN, (call, attribute: string, inMarkup: string | undefined, inScript: string | undefined) => {
      const text = catalogue[inMarkup ?? inScript ?? ''];
      if (typeof text !== 'string') return call;
      if (inMarkup === undefined) return JSON.stringify(text);
      const escaped = text.replace(/[&<>"{}]/g, (char) => `&#${char.charCodeAt(0)};`);
      return attribute ? `="${escaped}"` : escaped;
    });
}

/** What is still looked up: every key that the sources name in another way. */
export function left(sources: readonly string[], catalogue: Catalogue): Catalogue {
  const named = new Set<string>();
  for (const source of sources) {
    for (const [, key] of inline(source, catalogue).matchAll(/['"`]([a-z0-9_.]+)['"`]/g)) if (key) named.add(key);
  }
  return Object.fromEntries(Object.entries(catalogue).filter(([key]) => named.has(key)));
}

export function texts(path: string, sources: string): Plugin {
  const catalogue = JSON.parse(readFileSync(path, 'utf8')) as Catalogue;
  const read = () =>
    readdirSync(sources, { recursive: true, encoding: 'utf8' })
      .filter((name) => /\.(svelte|ts)$/.test(name))
      .map((name) => readFileSync(join(sources, name), 'utf8'));
  return {
    name: 'holdall-texts',
    enforce: 'pre',
    apply: 'build',
    load(id) {
      return id === path ? JSON.stringify(left(read(), catalogue)) : null;
    },
    transform(code, id) {
      return id.startsWith(sources) && !id.includes('?') ? { code: inline(code, catalogue), map: null } : null;
    },
  };
}
