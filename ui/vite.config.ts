import { svelte } from '@sveltejs/vite-plugin-svelte';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { lean } from './tools/lean.ts';
import { manual } from './tools/manual.ts';
import { texts } from './tools/texts.ts';

// Texts are the catalogue that the daemon and the tray use too.
const catalogue = fileURLToPath(new URL('../gui/texts/en.json', import.meta.url));
const pages = fileURLToPath(new URL('../docs/manual/', import.meta.url));
const sources = fileURLToPath(new URL('src/', import.meta.url));

// The workspace's version, for the pages to know whose they are.
const manifest = readFileSync(fileURLToPath(new URL('../Cargo.toml', import.meta.url)), 'utf8');
const version = /^version = "(.+)"$/m.exec(manifest)?.[1];

export default defineConfig({
  plugins: [texts(catalogue, sources), manual(pages), lean(), svelte()],
  define: { VERSION: JSON.stringify(version) },
  resolve: { alias: { $texts: catalogue } },
  // Pages are served below `/` by the daemon and by Tauri, and nothing of them is inlined: their content security
  // policy allows no `data:`.
  build: { target: 'es2022', assetsInlineLimit: 0, modulePreload: false, cssCodeSplit: false },
  server: { fs: { allow: ['..'] } },
  test: { include: ['test/**/*.test.ts'], setupFiles: ['test/setup.ts'] },
});
