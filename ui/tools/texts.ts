//! Puts texts into the pages when they are built: `t('cancel')` becomes `"Cancel"`, which is then part of the markup instead of
//! something that is looked up and watched, and `t('eta', ...)` becomes `t("{time} left", ...)`. The catalogue itself is not among the
//! pages then, and so a key is always written where its text is asked for.

import { readFileSync } from 'node:fs';
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

/** A call that says only later which text it is, or one that there is not. */
const OPEN = /\bt\((?!["{])/;

export function texts(path: string, sources: string): Plugin {
  const catalogue = JSON.parse(readFileSync(path, 'utf8')) as Catalogue;
  return {
    name: 'holdall-texts',
    enforce: 'pre',
    apply: 'build',
    load(id) {
      return id === path ? '{}' : null;
    },
    transform(code, id) {
      if (!id.startsWith(sources) || id.includes('?') || id === `${sources}lib/text.ts`) return null;
      const put = inline(code, catalogue);
      const at = put.search(OPEN);
      if (at >= 0) throw new Error(`A text that is not named by its key alone: ${put.slice(at, at + 60)}`);
      return { code: put, map: null };
    },
  };
}
