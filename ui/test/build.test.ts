import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { constant, without } from '../tools/lean';

describe('what takes up markup of a server', () => {
  it('is found in Svelte as it is now', () => {
    const path = new URL('../node_modules/svelte/src/internal/client/dom/hydration.js', import.meta.url);
    const kept = constant(readFileSync(path, 'utf8'));
    expect(kept).toContain('export const hydrating = false;');
    expect(kept).toContain('export function set_hydrating(value) {\n}');
    expect(() => constant('export let hydrating = true;')).toThrow('lean.ts');
  });

  it('is left out of components with what Svelte 4 would know of their slots', () => {
    const code =
      "\tDialog($$anchor, {\n\t\ttitle: 'a',\n\t\tchildren: f,\n\t\t$$slots: { actions: true, default: true }\n\t});\n";
    expect(without(code)).toBe("\tDialog($$anchor, {\n\t\ttitle: 'a',\n\t\tchildren: f\n\t});\n");
  });

  it('is left out of components, and nothing else is', () => {
    const code = 'var p = root();\n\t$.reset(p);\n\t$.next(2);\n$.next();\n$.reset_all(p);\n\tx = $.next(1);\n';
    expect(without(code)).toBe('var p = root();\n$.reset_all(p);\n\tx = $.next(1);\n');
  });
});
