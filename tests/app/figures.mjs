// The size of the pages, how often they draw, and how long a frame takes with much to show.

import assert from 'node:assert/strict';
import { readFile, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { LONG, start } from './fake.mjs';
import { go, narrow, open, step, until } from './steps.mjs';

/** The size of all scripts, for drives and for folders, and of those that come with the first page. */
const SCRIPT_LIMIT = 288 * 1024;
const FIRST_LIMIT = 110_000;
/**
 * The limit of a task, on a processor that does the yardstick's work in YARDSTICK_MS. On a slower one the limit is longer in
 * proportion.
 */
const FRAME_LIMIT_MS = 50;
const YARDSTICK_MS = 55;

/** The tasks of the page's main thread during `work`, in milliseconds of processor time, so that other load does not count. */
async function tasks(page, work) {
  const session = await page.context().newCDPSession(page);
  const events = [];
  session.on('Tracing.dataCollected', ({ value }) => events.push(...value));
  const ended = new Promise((done) => session.once('Tracing.tracingComplete', done));
  await session.send('Tracing.start', {
    transferMode: 'ReportEvents',
    traceConfig: {
      includedCategories: ['toplevel', 'devtools.timeline', '__metadata'],
    },
  });
  await work();
  await session.send('Tracing.end');
  await ended;
  await session.detach();
  const mains = new Set(
    events
      .filter((one) => one.name === 'thread_name' && one.args.name === 'CrRendererMain')
      .map((one) => `${one.pid} ${one.tid}`),
  );
  const found = events
    .filter((one) => one.ph === 'X' && /RunTask/.test(one.name) && mains.has(`${one.pid} ${one.tid}`))
    .map((one) => (one.tdur ?? one.dur) / 1000);
  return found.sort((one, other) => other - one);
}

/** How long the processor takes for a table of a fixed size on an empty page: the best of five runs. */
async function yardstick(browser) {
  const page = await browser.newPage();
  const found = await tasks(page, async () => {
    for (let turn = 0; turn < 5; turn += 1) {
      await page.evaluate(() => {
        const row = (_, index) => `<tr><td>${index}</td><td>row ${index} of the yardstick</td></tr>`;
        document.body.innerHTML = `<table>${Array.from({ length: 3000 }, row).join('')}</table>`;
        return document.body.offsetHeight;
      });
      await page.waitForTimeout(100);
    }
  });
  await page.close();
  return found[4];
}

/** Asserts that no task of `work` is long, in the best of three runs, each after `prepare`. Other load only makes tasks longer. */
async function assertShortTasks(page, yardstickMs, prepare, work) {
  let best;
  const limit = FRAME_LIMIT_MS * Math.max(1, yardstickMs / YARDSTICK_MS);
  for (let turn = 0; turn < 3 && !(best?.[0] < limit); turn += 1) {
    await prepare();
    const found = await tasks(page, work);
    assert.ok(found.length > 50, `only ${found.length} tasks were seen`);
    if (!best || found[0] < best[0]) best = found;
  }
  const longest = best.slice(0, 5).map((ms) => ms.toFixed(1));
  assert.ok(best[0] < limit, `longest: ${longest} ms, of ${limit.toFixed(1)} ms`);
  return `longest task ${longest[0]} ms of ${limit.toFixed(1)} ms`;
}

/** How often something below `selector` is drawn in `ms` milliseconds. Changes within one frame count once. */
function draws(page, selector, ms) {
  return page.evaluate(
    ([selector, ms]) =>
      new Promise((done) => {
        // Changes within one frame of the screen are drawn once.
        let count = 0;
        let since = Number.NEGATIVE_INFINITY;
        const changed = () => {
          const now = performance.now();
          if (now - since < 20) return;
          since = now;
          count += 1;
        };
        const watch = new MutationObserver(changed);
        const all = { subtree: true, childList: true, characterData: true, attributes: true };
        watch.observe(document.querySelector(selector), all);
        // Drawing on a canvas changes nothing in the document.
        const pen = CanvasRenderingContext2D.prototype;
        const { fillRect } = pen;
        pen.fillRect = function (...where) {
          changed();
          return fillRect.apply(this, where);
        };
        setTimeout(() => {
          watch.disconnect();
          pen.fillRect = fillRect;
          done(count);
        }, ms);
      }),
    [selector, ms],
  );
}

export async function size(pages) {
  await step('the script is small', async () => {
    const scripts = (await readdir(join(pages, 'assets'))).filter((name) => name.endsWith('.js'));
    // The manual is text, and comes when somebody asks for it.
    const names = scripts.filter((name) => !name.startsWith('manual-'));
    assert.equal(scripts.length - names.length, 1, 'the manual is a file of its own');
    const sizes = await Promise.all(names.map(async (name) => (await stat(join(pages, 'assets', name))).size));
    const bytes = sizes.reduce((sum, one) => sum + one, 0);
    assert.ok(bytes > 0 && bytes < SCRIPT_LIMIT, `${bytes} bytes`);
    const html = await readFile(join(pages, 'index.html'), 'utf8');
    assert.ok(!/https?:\/\//.test(html), 'nothing comes from elsewhere');
    const first = names.reduce((sum, name, index) => sum + (html.includes(name) ? sizes[index] : 0), 0);
    assert.ok(first > 0 && first < FIRST_LIMIT, `${first} bytes at first`);
    return `${first} bytes at first, ${bytes} in all`;
  });
}

export async function load(browser, pages) {
  // It sends five times as much as a real one.
  const fake = await start({ pages, everyMs: 50 });
  try {
    const yardstickMs = await yardstick(browser);
    await step('the yardstick', async () => `${yardstickMs.toFixed(1)} ms`);
    const page = await open(browser, fake.url);
    await page.getByText('202 of 202').waitFor();

    await step('all screens are there while the service still is', async () => {
      const isHere = () => performance.getEntriesByType('resource').some(({ name }) => /others-[^/]+\.js$/.test(name));
      await page.waitForFunction(isHere, null, { timeout: 10_000 });
    });

    await step('a page of another version than the service says so', async () => {
      const later = await start({ pages, drives: 1, version: '9.8.7' });
      try {
        const other = await open(browser, later.url);
        await other.getByText('and the background service has version 9.8.7').waitFor();
        await other.getByRole('button', { name: 'Reload' }).click();
        await other.getByText('and the background service has version 9.8.7').waitFor();
        await other.close();
      } finally {
        later.stop();
      }
      assert.equal(await page.getByText('Holdall was updated').count(), 0);
    });

    await step('however much is told, it draws four times a second, and nothing while hidden', async () => {
      const drawn = () => draws(page, 'ul.places', 3000);
      const shown = await drawn();
      assert.ok(shown >= 2 && shown <= 12, `${shown} times in 3 s`);
      const hide = (state) =>
        page.evaluate((to) => {
          Object.defineProperty(document, 'visibilityState', {
            value: to,
            configurable: true,
          });
          document.dispatchEvent(new Event('visibilitychange'));
        }, state);
      await hide('hidden');
      const hidden = await drawn();
      assert.equal(hidden, 0, 'drawn while hidden');
      assert.equal(fake.listeners(), 0, 'nothing is listened to while hidden');
      await hide('visible');
      assert.ok((await drawn()) >= 2, 'drawn again');
      return `${(shown / 3).toFixed(1)} Hz`;
    });

    await step('200 drives and 2 folders keep frames short', async () => {
      const begin = () => go(page, '#/');
      const said = await assertShortTasks(page, yardstickMs, begin, async () => {
        for (let turn = 0; turn < 20; turn += 1) {
          await page.mouse.move(700, 500);
          await page.mouse.wheel(0, 700);
          await page.waitForTimeout(150);
        }
      });
      return said;
    });

    await step('10,000 rows keep frames short', async () => {
      const feed = page.locator('.scroller');
      const begin = async () => {
        await go(page, '#/');
        await go(page, '#/activity');
        await page.getByRole('article').first().waitFor();
      };
      const said = await assertShortTasks(page, yardstickMs, begin, async () => {
        // To the end, page by page, as they are fetched.
        for (let turn = 0; turn < 200; turn += 1) {
          const end = await feed.evaluate((one) => {
            const before = one.scrollHeight;
            one.scrollTop = before;
            return before;
          });
          await page.waitForTimeout(40);
          if (end >= 10_000 * 58) break;
        }
        for (let turn = 0; turn < 30; turn += 1) {
          await feed.evaluate((one, at) => (one.scrollTop = (one.scrollHeight * at) / 30), turn);
          await page.waitForTimeout(30);
        }
      });
      const rows = await feed.evaluate((one) => Math.round(one.scrollHeight / 58));
      assert.ok(rows >= 10_000, `${rows} rows`);
      assert.ok((await page.getByRole('article').count()) < 100, 'only what can be seen is in the page');
      assert.equal(await feed.locator('article[tabindex="0"]').count(), 1, 'Tab comes into the list');
      return said;
    });

    await step('a drive with all that it can have keeps frames short', async () => {
      const begin = async () => {
        await go(page, '#/');
        await go(page, '#/place/drive-000/storage');
        await page.locator('canvas[data-columns]').waitFor();
      };
      const said = await assertShortTasks(page, yardstickMs, begin, async () => {
        // The whole map changes every second, while the pointer moves over it.
        const box = await page.locator('canvas[data-columns]').boundingBox();
        for (let turn = 0; turn < 30; turn += 1) {
          await page.mouse.move(box.x + (box.width * turn) / 30, box.y + 20);
          await page.mouse.wheel(0, turn < 15 ? 200 : -200);
          await page.waitForTimeout(130);
        }
        await page.getByRole('button', { name: 'Show as table' }).click();
        await page.waitForTimeout(1500);
      });
      return said;
    });

    await step("a drive's own screen draws four times a second at most, with its map and its traffic", async () => {
      await page.getByRole('button', { name: 'Hide table' }).click();
      const shown = await draws(page, 'body', 6000);
      assert.ok(shown >= 6 && shown <= 24, `${shown} times in 6 s`);
      return `${(shown / 6).toFixed(1)} Hz`;
    });

    await step('folders of 20,000 keep frames short, and show the first of it', async () => {
      const begin = async () => {
        await go(page, '#/');
        await go(page, '#/place/drive-000/files');
        await page.getByRole('treeitem').first().waitFor();
      };
      const said = await assertShortTasks(page, yardstickMs, begin, async () => {
        await page.getByRole('treeitem').first().focus();
        await page.keyboard.press('ArrowRight');
        for (let turn = 0; turn < 40; turn += 1) {
          await page.keyboard.press('ArrowDown');
          await page.mouse.move(700, 500);
          await page.mouse.wheel(0, 900);
          await page.waitForTimeout(60);
        }
      });
      const rows = await page.getByRole('treeitem').count();
      assert.equal(rows, 2 * 501);
      await page.getByText('Show more: 19,500 not shown yet').first().click();
      await until('there are more', async () => (await page.getByRole('treeitem').count()) === 2 * 501 + 500);
      return `${said}, ${rows} rows in the page`;
    });
    assert.deepEqual(page.errors, []);
    await page.context().close();
  } finally {
    fake.stop();
  }
}

/** Every screen on a phone, with names and sentences as long as possible. */
export async function phone(browser, pages) {
  const fake = await start({ pages, drives: 3, rows: 300, long: true });
  const isPhone = { viewport: { width: 390, height: 844 }, hasTouch: true };
  const page = await open(browser, fake.url, isPhone);
  const name = LONG.drive;
  const screens = {
    '': (one) => one.locator('ul.places li').first(),
    [`place/${name}/overview`]: (one) => one.getByRole('heading', { name: 'Always kept here' }),
    [`place/${name}/files`]: (one) => one.getByRole('treeitem').first(),
    [`place/${name}/versions`]: (one) => one.getByRole('heading', { name: 'Snapshots' }),
    [`place/${name}/storage`]: (one) => one.locator('canvas[data-columns]'),
    [`place/${name}/settings`]: (one) => one.getByRole('button', { name: 'Check now' }),
    [`place/${name}-0/overview`]: (one) => one.getByText('192 more files'),
    [`place/${name}-0/versions`]: (one) => one.getByRole('button', { name: 'Keep both' }).first(),
    [`place/${name}-0/settings`]: (one) => one.getByRole('button', { name: 'Close folder' }),
    activity: (one) => one.getByRole('article').first(),
    settings: (one) => one.getByRole('button', { name: 'Log out' }).first(),
    add: (one) => one.getByRole('link', { name: 'Make a drive' }),
    'add/drive': (one) => one.getByText('WebDAV').first(),
    'add-folder': (one) => one.getByRole('button', { name: 'Open files' }),
    help: (one) => one.getByRole('link', { name: 'Keep files offline' }),
  };
  try {
    await step('every screen fits a window of 390 pixels, and of 320', async () => {
      for (const [hash, shown] of Object.entries(screens)) {
        await go(page, `#/${hash}`);
        await shown(page).waitFor();
        await narrow(page, hash);
      }
      // Every page of the manual.
      const links = page.locator('main li a');
      await go(page, '#/help');
      await links.first().waitFor();
      for (const hash of await links.evaluateAll((all) => all.map((one) => one.getAttribute('href')))) {
        await go(page, hash);
        await page.locator('article h2').first().waitFor();
        await narrow(page, hash);
      }
      await go(page, '#/settings');
      await page.getByRole('button', { name: 'Look now' }).click();
      await page.getByText('1 problem was found').waitFor();
      await page.getByText('All right (1)').click();
      await page.getByText('The kernel has nbd.').waitFor();
      await narrow(page, 'settings, problems');
      await go(page, '#/activity');
      await page.getByRole('article').nth(1).click();
      await narrow(page, 'activity, a message as a whole');
      return `${Object.keys(screens).length} screens`;
    });
    assert.deepEqual(page.errors, []);
    await page.context().close();
  } finally {
    fake.stop();
  }
}
