// Debian's chromium, driven by playwright-core.

import { createRequire } from 'node:module';

const require = createRequire(new URL('../../ui/package.json', import.meta.url));
const { chromium } = require('playwright-core');
export const AXE = require.resolve('axe-core/axe.min.js');

const QUIET = [
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

export async function browser() {
  // Its sandbox is not for root.
  const sandbox = process.getuid() === 0 ? ['--no-sandbox'] : [];
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: [...QUIET, ...sandbox],
  });
}
