// The pages in a real browser, with a real daemon, a real drive and a real S3 server behind a proxy that does harm.
//
//     node tests/app/main.mjs             all of it
//     node tests/app/main.mjs figures     what needs no daemon
//     node tests/app/main.mjs story       the rest
//
// Needs holdall, holdalld and examples/stand in $HOLDALL_BIN (target/debug), the built pages in ui/dist, chromium, and root's rights
// for attaching. The pictures go to $HOLDALL_SCREENS; without it they are discarded.

import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { browser } from './browser.mjs';
import { load, phone, size } from './figures.mjs';
import { keys } from './keys.mjs';
import { Machine } from './machine.mjs';
import { stand } from './stand.mjs';
import { accessible, go, open, step } from './steps.mjs';
import * as story from './story.mjs';

const pages = new URL('../../ui/dist', import.meta.url).pathname;
const only = process.argv[2];

/** Pictures of a page in both looks. */
function pictures(page, to) {
  return async (name) => {
    for (const look of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme: look, reducedMotion: 'reduce' });
      // Canvases are drawn again with the colours of the look.
      await page.waitForTimeout(300);
      // The whole content, with the page as high as it.
      const height = await page.evaluate(() => document.documentElement.scrollHeight);
      await page.setViewportSize({ width: 1280, height: Math.max(860, height) });
      await page.waitForTimeout(200);
      await page.screenshot({ path: join(to, `${name}-${look}.png`) });
      await page.setViewportSize({ width: 1280, height: 860 });
      if (look === 'dark') await accessible(page, `${name}, dark`);
    }
    await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' });
  };
}

async function whole(chromium, dir) {
  const servers = await stand();
  const [a, b] = [new Machine(dir, 'a'), new Machine(dir, 'b')];
  given.add(a).add(b);
  const screens = process.env.HOLDALL_SCREENS ?? join(dir, 'screens');
  await mkdir(screens, { recursive: true });
  let page;
  try {
    await a.start();
    page = await open(chromium, await a.web());
    const shot = pictures(page, screens);
    const shotOf = (other, name) => pictures(other, screens)(name);
    const all = { a, b, stand: servers, dir };
    await story.wizard(page, all, shot);
    await story.files(page, all);
    await story.detail(page, all, shot);
    await story.keep(page, all, shot);
    await story.network(page, all, shot);
    await story.snapshot(page, all, shot);
    await story.fork(page, all, shot, shotOf);
    await story.again(page, all, shot);
    await story.place(page, all, shot);
    await keys(page, all);
    await step('every screen is there in both looks', async () => {
      for (const [name, hash] of [
        ['drives', '#/'],
        ['activity', '#/activity'],
        ['settings', '#/settings'],
        ['help', '#/help'],
        ['help-page', '#/help/offline'],
        ['add', '#/add'],
        ['add-drive', '#/add/drive'],
        ['add-folder', '#/add-folder'],
      ]) {
        await go(page, hash);
        await page.waitForTimeout(800);
        await accessible(page, name);
        await shot(name);
      }
    });
    await story.activity(page);
    await story.settings(page, all);
    await story.security(page, all, shot);
    await story.elsewhere(page, all, shotOf);
    await story.lose(page, all);
    await story.crash(page, all);
    await story.down(page, all, shot);
    assert.deepEqual(page.errors, []);
  } catch (error) {
    const picture = join(tmpdir(), 'holdall-app-failed.png');
    await page?.screenshot({ path: picture, fullPage: true }).catch(() => undefined);
    console.log(`\n${error.stack}\nThe page then: ${picture}\n${page?.errors.join('\n') ?? ''}`);
    console.log(`The daemon's log ends:\n${(await a.log()).split('\n').slice(-25).join('\n')}`);
    throw error;
  } finally {
    await page?.context().close();
    await servers.restore().catch(() => undefined);
    await a.end();
    await b.end();
    await servers.end();
  }
}

/** Everything that must be ended, however this ends. */
const given = new Set();
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.on(signal, async () => {
    for (const machine of given) await machine.end().catch(() => undefined);
    process.exit(1);
  });
}

const dir = await mkdtemp(join(tmpdir(), 'holdall-app-'));
const chromium = await browser();
let failed = false;
try {
  await size(pages);
  if (only !== 'story') {
    await phone(chromium, pages);
    await load(chromium, pages);
  }
  if (only !== 'figures') await whole(chromium, dir);
} catch (error) {
  failed = true;
  console.error(error);
} finally {
  await chromium.close();
  const mounts = await readFile('/proc/mounts', 'utf8');
  if (!mounts.includes(dir)) await rm(dir, { recursive: true, force: true });
  else console.error(`${dir} has mounts left`);
}
process.exitCode = failed ? 1 : 0;
