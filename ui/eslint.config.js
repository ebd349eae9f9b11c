import js from '@eslint/js';
import svelte from 'eslint-plugin-svelte';
import globals from 'globals';
import ts from 'typescript-eslint';
import config from './svelte.config.js';

export default ts.config(
  { ignores: ['dist', 'node_modules', 'src/backend/types.ts'] },
  js.configs.recommended,
  ...ts.configs.strict,
  ...svelte.configs.recommended,
  { languageOptions: { globals: { ...globals.browser, VERSION: 'readonly' } } },
  { files: ['*.js', '*.ts', 'tools/**'], languageOptions: { globals: { ...globals.node } } },
  {
    files: ['**/*.svelte', '**/*.svelte.ts'],
    languageOptions: { parserOptions: { parser: ts.parser, svelteConfig: config } },
  },
  {
    rules: {
      eqeqeq: 'error',
      // The router is the page's own, by the address's fragment.
      'svelte/no-navigation-without-resolve': 'off',
      // A promise or an interval is no cause to draw: what is drawn is `$state`.
      'svelte/prefer-svelte-reactivity': 'off',
    },
  },
);
