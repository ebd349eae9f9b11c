//! Leaves out of the pages what Svelte and Vite put into them for others.
//!
//! What takes up markup that a server has made: these are made in the browser alone. Svelte guards all of it with one variable, for it
//! to be left out where nothing sets that; but parts that are in the pages set it back. And what fetches a part's styles and parts
//! before the part itself: all styles are in one file here, and no part needs another that is not there.

import type { Plugin } from 'vite';

/** Svelte's own module, with the variable a constant. */
export function constant(code: string): string {
  const kept = code
    .replace('export let hydrating = false;', 'export const hydrating = false;')
    .replace('\thydrating = value;\n', '');
  if (!kept.includes('export const hydrating') || /\bhydrating = (?!false;)/.test(kept)) {
    throw new Error('Svelte guards hydration in another way than before: see ui/tools/lean.ts');
  }
  return kept;
}

/** A compiled component without the calls that do something only then, and without what tells components of Svelte 4 of their slots. */
export function without(code: string): string {
  return code.replace(/^\s*\$\.(?:reset\(\w+\)|next\(\d*\));\n/gm, '').replace(/,\s*\$\$slots: \{[^}]*\}/g, '');
}

/** Vite's own module that fetches a part with what it needs. */
const PRELOAD = '\0vite/preload-helper.js';

export function lean(): Plugin {
  return {
    name: 'holdall-lean',
    enforce: 'post',
    apply: 'build',
    transform(code, id) {
      if (id === PRELOAD) return { code: 'export const __vitePreload = (part) => part();', map: null };
      if (id.endsWith('/svelte/src/internal/client/dom/hydration.js')) return { code: constant(code), map: null };
      return id.endsWith('.svelte') ? { code: without(code), map: null } : null;
    },
  };
}
