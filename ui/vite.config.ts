import { svelte } from '@sveltejs/vite-plugin-svelte';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { noHydration } from './tools/no-hydration.ts';
import { texts } from './tools/texts.ts';

// Texts are the catalogue that the daemon and the tray use too.
const catalogue = fileURLToPath(new URL('../gui/texts/en.json', import.meta.url));
const sources = fileURLToPath(new URL('src/', import.meta.url));

export default defineConfig({
  plugins: [texts(catalogue, sources), noHydration(), svelte()],
  resolve: { alias: { $texts: catalogue } },
  // Pages are served below `/` by the daemon and by Tauri, and nothing of them is inlined: their content security
  // policy allows no `data:`.
  build: { target: 'es2022', assetsInlineLimit: 0, modulePreload: false, cssCodeSplit: false },
  server: { fs: { allow: ['..'] } },
  test: { include: ['test/**/*.test.ts'], setupFiles: ['test/setup.ts'] },
});
