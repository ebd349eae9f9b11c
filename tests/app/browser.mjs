// Debian's chromium, or the one from packaging/setup where a distribution has none; driven by playwright-core.

import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { homedir } from 'node:os';
import { join } from 'node:path';

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

const OF_DEBIAN = '/usr/bin/chromium';
const OF_NPM = join(homedir(), '.local/share/holdall-tests/chromium');

export async function browser() {
  const executablePath = process.env.CHROMIUM ?? (existsSync(OF_DEBIAN) ? OF_DEBIAN : OF_NPM);
  // Its sandbox does not work for root, and Ubuntu allows the needed namespaces only to programs that it knows.
  const isSandboxed = process.getuid() !== 0 && executablePath === OF_DEBIAN;
  return chromium.launch({ executablePath, args: [...QUIET, ...(isSandboxed ? [] : ['--no-sandbox'])] });
}
