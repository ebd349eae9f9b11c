// One person's story with a drive, in a real browser: from nothing to two versions of it.

import assert from 'node:assert/strict';
import { mkdir, open as openFile, readFile, readdir, writeFile } from 'node:fs/promises';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { dialog } from './keys.mjs';
import { Machine } from './machine.mjs';
import { accessible, addressOf, choose, given, go, invalid, narrow, open, row, step, until } from './steps.mjs';

const PASSWORD = given('twelve signs or more');
const PASSPHRASE = given('tangerine paperclip');
const MB = 1024 * 1024;

/** Writes a file, which is on the disk when this returns. */
export async function save(path, content) {
  const file = await openFile(path, 'w');
  await file.writeFile(content);
  await file.sync();
  await file.close();
}

export async function wizard(page, all, shot) {
  const { stand, a } = all;
  await step('an empty start says what to do', async () => {
    await page.getByRole('heading', { name: 'Your files, here and in your own cloud' }).waitFor();
    await accessible(page, 'Home, empty');
    await shot('empty');
    await page.getByRole('link', { name: 'Make a drive' }).click();
    await page.getByRole('heading', { level: 1, name: 'Add drive' }).waitFor();
    await accessible(page, 'wizard, store');
  });

  await step('a WebDAV server is tried, by user and password', async () => {
    const dav = (all.dav = await stand.dav());
    const next = page.getByRole('button', { name: 'Continue' });
    await page.getByLabel('WebDAV').check();
    await next.click();
    await page.getByLabel('Address', { exact: true }).fill(dav.address);
    await page.getByLabel('User', { exact: true }).fill(dav.user);
    const password = page.getByLabel('Password', { exact: true });
    await password.fill('battery-staple');
    await password.press('Enter');
    // The message is where the mistake can be corrected.
    await page
      .getByRole('alert')
      .getByText(/^The store refused the credentials/)
      .waitFor();
    assert.ok(await next.isDisabled(), 'a wrong password');
    await accessible(page, 'wizard, WebDAV, refused');
    await password.fill(dav.password);
    await password.press('Enter');
    await page.getByText('several computers can use this store safely').waitFor();
    assert.ok(await next.isEnabled());
    await accessible(page, 'wizard, WebDAV, tested');
    // A test with a password says nothing about a token.
    await page.getByLabel('Token', { exact: true }).check();
    await page.getByLabel('Bearer token').waitFor();
    await page.getByText('Test the connection to continue.').waitFor();
    assert.ok(await next.isDisabled(), 'not tested');
    await page.getByRole('button', { name: 'Back' }).click();
  });

  await step('a wrong key is told with its cause, before anything is made', async () => {
    await page.getByLabel('S3 bucket').check();
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.getByLabel('Another S3 server').check();
    await page.getByLabel('Server address').fill('s3 example org');
    await page.getByLabel('Bucket', { exact: true }).fill('my/bucket');
    assert.deepEqual(await invalid(page), ['Server address', 'Bucket']);
    assert.ok(await page.getByRole('button', { name: 'Test connection' }).isDisabled());
    // Only addresses on this computer may go without TLS and without a warning.
    const clear = page.getByText(
      'Without https, others on the network can read everything that is sent, including passwords.',
    );
    await page.getByLabel('Server address').fill('http://nas.example:9000');
    await clear.waitFor();
    await page.getByLabel('Server address').fill(stand.proxy);
    await clear.waitFor({ state: 'detached' });
    await page.getByLabel('Bucket', { exact: true }).fill(stand.bucket);
    assert.deepEqual(await invalid(page), []);
    await page.getByLabel('Folder in the bucket').fill('work');
    await page.getByLabel('Access key ID').fill(stand.access_key);
    await page.getByLabel('Secret access key').fill('battery-staple');
    assert.ok(await page.getByRole('button', { name: 'Continue' }).isDisabled());
    const test = page.getByRole('button', { name: /^Test (connection|again)$/ });
    await test.focus();
    await page.keyboard.press('Enter');
    await page.getByText('The store refused the credentials: the secret key does not belong').waitFor();
    assert.ok(await test.evaluate((one) => one === document.activeElement), 'the focus stays');
    await narrow(page, 'wizard, refused');
    assert.ok(await page.getByRole('button', { name: 'Continue' }).isDisabled());
    await accessible(page, 'wizard, refused');
  });

  await step('a draft outlives the page, and no secret does', async () => {
    await page.reload();
    await page.getByText('Your draft is back').waitFor();
    assert.equal(await page.getByLabel('Server address').inputValue(), stand.proxy);
    assert.equal(await page.getByLabel('Secret access key').inputValue(), '');
    const kept = await page.evaluate(() => JSON.stringify(localStorage) + JSON.stringify(sessionStorage));
    assert.ok(!kept.includes('battery-staple') && kept.includes(stand.access_key), kept);
  });

  await step('the test says what the store can do', async () => {
    await page.getByLabel('Secret access key').fill(stand.secret_key);
    await page.getByRole('button', { name: 'Test connection' }).click();
    await page.getByText('several computers can use this store safely').waitFor();
    await page.getByText('How this was tested').click();
    await accessible(page, 'wizard, tested');
    await shot('add-tested');
  });

  await step('the wizard leads to a mounted drive', async () => {
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.getByLabel('Name').fill('my work');
    await page.getByLabel('Size').fill('4 MiB');
    assert.deepEqual(await invalid(page), ['Name', 'Size']);
    await page.getByLabel('Name').fill('work');
    assert.ok(await page.getByRole('button', { name: 'Continue' }).isDisabled(), 'too small');
    await page.getByLabel('Size').fill('512 MiB');
    await narrow(page, 'wizard, drive');
    await accessible(page, 'wizard, drive');
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.getByLabel('Passphrase', { exact: true }).fill(PASSPHRASE);
    await page.getByLabel('Repeat passphrase').fill('tangerine');
    assert.ok(await page.getByRole('button', { name: 'Continue' }).isDisabled(), 'not the same');
    await page.getByLabel('Repeat passphrase').fill(PASSPHRASE);
    await accessible(page, 'wizard, protection');
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.getByLabel('Mount at').fill('work');
    await page.getByLabel('Cache limit').fill('lots');
    assert.deepEqual(await invalid(page), ['Mount at', 'Cache limit']);
    await page.getByLabel('Cache limit').fill('');
    // It is not empty.
    const full = join(all.dir, 'full');
    await mkdir(full);
    await writeFile(join(full, 'note'), '');
    await page.getByLabel('Mount at').fill(full);
    await narrow(page, 'wizard, place');
    await accessible(page, 'wizard, place');
    await page.getByRole('button', { name: 'Continue' }).click();
    await accessible(page, 'wizard, summary');
    await shot('add-summary');
    await page.getByRole('button', { name: 'Create and open drive' }).click();

    await page.getByRole('heading', { name: 'Write down the recovery key' }).waitFor();
    const groups = await page.locator('ol.groups code').allTextContents();
    assert.ok(groups.length >= 6, groups.join());
    all.recovery = given(groups.join('-'));
    await accessible(page, 'wizard, recovery key');
    await shot('add-recovery-key');
    // Nothing leads away from it by accident. A person who leaves anyway finds it again.
    await dialog(page, page.getByRole('link', { name: 'Activity' }), 'wizard, leaving');
    await page.keyboard.press('Escape');
    // The question is gone, and the browser is back where it was. It may merge two navigations into one.
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
    await page.waitForFunction(() => location.hash.startsWith('#/add/drive') && history.state?.at === 1);
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done))));
    await page.evaluate(() => history.back());
    await page.getByRole('button', { name: 'Leave without the key' }).click();
    await page.getByRole('heading', { level: 1, name: 'Home' }).waitFor();
    await go(page, '#/add/drive');
    await page.getByRole('heading', { name: 'Write down the recovery key' }).waitFor();
    assert.deepEqual(await page.locator('ol.groups code').allTextContents(), groups);
    await page.getByRole('button', { name: 'I have written it down' }).click();
    const fields = page.getByLabel(/^Group \d+$/);
    for (const index of [0, 1]) await fields.nth(index).fill('wrong');
    assert.ok(await page.getByRole('button', { name: 'Continue' }).isDisabled(), 'a wrong key');
    await narrow(page, 'wizard, recovery key');
    await typeGroups(page, groups);
    await page.getByRole('button', { name: 'Continue' }).click();
    // If it cannot be mounted, another place can be chosen. The drive is created only once.
    await page.getByText('it is not empty').waitFor();
    await accessible(page, 'wizard, not mounted');
    await narrow(page, 'wizard, not mounted');
    await page.getByLabel('Mount at').fill(a.mnt);
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByRole('heading', { name: 'work is ready' }).waitFor();
    await accessible(page, 'wizard, done');
    await shot('add-done');
    const mounts = await readFile('/proc/mounts', 'utf8');
    assert.ok(mounts.includes(` ${a.mnt} ext4`), 'it is mounted');
    const kept = await page.evaluate(() => JSON.stringify(localStorage) + JSON.stringify(sessionStorage));
    assert.ok(!kept.includes(PASSPHRASE) && !kept.includes(groups[1]) && !kept.includes('holdall.draft'), kept);
  });
}

export async function files(page, { a }) {
  await step('what is saved is uploaded, and only then it is green', async () => {
    await mkdir(join(a.mnt, 'photos'), { recursive: true });
    await mkdir(join(a.mnt, 'letters/2026'), { recursive: true });
    for (let index = 0; index < 12; index += 1) await save(join(a.mnt, `photos/${index}.jpg`), randomBytes(2 * MB));
    await save(join(a.mnt, 'letters/2026/plan.txt'), 'north\n');
    await mkdir(join(a.mnt, 'films'));
    await save(join(a.mnt, 'films/one.mkv'), randomBytes(70 * MB));
    await go(page, '#/');
    await a.ok('drive', 'sync', 'work');
    await page.getByRole('heading', { name: 'Everything is uploaded' }).waitFor();
    await row(page, 'work').getByText('Ready', { exact: true }).waitFor();
    await accessible(page, 'Home');
    await row(page, 'work').getByRole('button', { name: 'More actions for work' }).click();
    await accessible(page, 'Home, more actions');
    await page.keyboard.press('Escape');
  });

  await step('while nothing is known yet, it does not say that there is nothing', async () => {
    let answer;
    const held = new Promise((done) => (answer = done));
    await page.route('**/v1/overview', async (route) => {
      await held;
      // The page that asked may be gone.
      await route.continue().catch(() => undefined);
    });
    await page.reload();
    // Earlier data is marked as such.
    await page.getByText('Last known just now').waitFor();
    assert.equal(await row(page, 'work').getByRole('button').count(), 0);
    await accessible(page, 'Home, as it was');
    await page.evaluate(() => localStorage.clear());
    await page.reload();
    await page.getByText('Loading your drives and folders').waitFor({ state: 'attached' });
    assert.equal(await page.evaluate(() => document.getAnimations().length), 0, 'nothing moves for whoever wants that');
    const { text, blank } = await page.evaluate(() => ({
      text: document.querySelector('main').innerText,
      blank: document.querySelectorAll('main [aria-hidden=true] .skeleton').length,
    }));
    assert.ok(blank > 0 && !/your own cloud|not running|uploaded/.test(text), `${blank}: ${text}`);
    await accessible(page, 'Home, loading');
    answer();
    await page.getByRole('heading', { name: 'Everything is uploaded' }).waitFor();
    assert.equal(await page.locator('.skeleton').count(), 0);
    await page.unroute('**/v1/overview');
  });

  await step('a drive is paused and resumed', async () => {
    const card = row(page, 'work');
    await choose(page, 'work', 'Pause uploads of work');
    await card.getByText('Paused', { exact: true }).waitFor();
    await save(join(a.mnt, 'paused.txt'), 'later\n');
    await card.getByText(/only here$/).waitFor();
    await page.getByRole('heading', { name: /only on this computer$/ }).waitFor();
    await page
      .getByRole('navigation')
      .getByText(/^Paused by you, .* waiting$/)
      .waitFor();
    const paused = await a.status('work');
    assert.ok(paused.paused && paused.unpushed_bytes > 0, JSON.stringify(paused));
    await accessible(page, 'Home, paused');
    await card.getByRole('link', { name: 'work', exact: true }).click();
    await page.getByText('Files that you save stay on this computer until uploads resume.').waitFor();
    await accessible(page, 'Drive, paused');
    // Closing it now would leave changes only here, so the page asks.
    const asked = await dialog(page, page.getByRole('button', { name: 'Close work' }), 'Close');
    await asked.getByText(/exist only on this computer\..* other computers do not see them\.$/).waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('link', { name: 'Storage' }).click();
    assert.ok((await sameMap(page, a)).includes('dirty'), 'the map shows what waits');
    await page.getByRole('button', { name: 'Resume uploads of work' }).click();
    await page.getByRole('button', { name: 'Pause uploads of work' }).waitFor();
    await a.ok('drive', 'sync', 'work');
    await page.goBack();
    await page.getByRole('heading', { name: 'Everything is uploaded' }).waitFor();
    await page.goBack();
    await card.getByText(/^All uploaded/).waitFor();
    const resumed = await a.status('work');
    assert.ok(!resumed.paused && resumed.unpushed_bytes === 0, JSON.stringify(resumed));
  });
}

/** Types the two requested groups of a recovery key. */
async function typeGroups(where, groups) {
  for (const index of [0, 1]) {
    const label = where.locator('label', { hasText: /^Group/ }).nth(index);
    const number = Number((await label.textContent()).replace(/\D/g, ''));
    await where
      .getByLabel(/^Group \d+$/)
      .nth(index)
      .fill(groups[number - 1].toLowerCase());
  }
}

/** The colours of a canvas's cells, each at a spot where every state has its own colour. */
async function drawn(page) {
  return page.evaluate(() => {
    const canvas = document.querySelector('canvas[data-columns]');
    const { columns, pitch, gap, cells } = Object.fromEntries(
      Object.entries(canvas.dataset).map(([key, value]) => [key, Number(value)]),
    );
    const context = canvas.getContext('2d');
    const style = getComputedStyle(canvas);
    const probe = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const states = ['absent', 'cached', 'pinned', 'dirty', 'uploading', 'failed', 'empty'];
    const colours = Object.fromEntries(
      states.map((state) => {
        probe.fillStyle = style.getPropertyValue(`--cell-${state}`).trim();
        probe.fillRect(0, 0, 1, 1);
        return [[...probe.getImageData(0, 0, 1, 1).data].join(), state];
      }),
    );
    const side = pitch - gap;
    const all = context.getImageData(0, 0, canvas.width, canvas.height);
    return Array.from({ length: cells }, (_, index) => {
      const x = (index % columns) * pitch;
      const y = Math.floor(index / columns) * pitch;
      // Every pixel of the cell, whichever colour it has.
      const counts = {};
      for (let dy = 0; dy < side; dy += 1) {
        for (let dx = 0; dx < side; dx += 1) {
          const at = ((y + dy) * all.width + x + dx) * 4;
          const state = colours[[...all.data.slice(at, at + 4)].join()];
          if (state) counts[state] = (counts[state] ?? 0) + 1;
        }
      }
      return Object.entries(counts).sort((one, other) => other[1] - one[1])[0]?.[0] ?? 'nothing';
    });
  });
}

/** The points of a line of the graph. */
async function line(page, way) {
  const points = await page.locator(`polyline.${way}`).getAttribute('points');
  return points.split(' ').filter((point) => point !== '');
}

/** The map shows what the command line reports, within a second or two. */
async function sameMap(page, a) {
  await page.locator('canvas[data-columns]').waitFor();
  return until('the map shows what there is', async () => {
    const [shown, told] = [await drawn(page), await a.ok('drive', 'map', 'work')];
    return JSON.stringify(shown) === JSON.stringify(told.cells) && shown;
  });
}

export async function detail(page, { a }, shot) {
  await step('the drive shows what the command line tells', async () => {
    await row(page, 'work').getByRole('link', { name: 'work', exact: true }).click();
    await page.getByRole('heading', { level: 1, name: 'work' }).waitFor();
    await accessible(page, 'Drive');
    await shot('drive');
    await page.getByRole('link', { name: 'Storage' }).click();
    const cells = await sameMap(page, a);
    await page.getByRole('button', { name: 'Show as table' }).click();
    await until('the graph has a line', async () => (await line(page, 'up')).length > 2);
    await accessible(page, 'Drive, Storage');
    await shot('storage');
    return `${cells.length} cells`;
  });

  await step('every tab survives a reload, Back and Forward, and says its name', async () => {
    for (const [tab, title] of [
      ['files', 'work, Files'],
      ['versions', 'work, Versions'],
      ['storage', 'work, Storage'],
      ['settings', 'work, Settings'],
      ['overview', 'work'],
    ]) {
      await go(page, addressOf('work', tab));
      await page.waitForFunction((named) => document.title === `${named} · Holdall`, title);
      await page.reload();
      const current = page.getByRole('navigation', { name: 'work' }).locator('[aria-current=page]');
      await current.waitFor();
      assert.equal((await current.innerText()).trim().toLowerCase(), tab);
      assert.equal(await page.title(), `${title} · Holdall`);
    }
    await page.goBack();
    await page.waitForFunction(() => document.title.startsWith('work, Settings'));
    await page.goForward();
    await page.waitForFunction(() => document.title.startsWith('work ·'));
    // Addresses of earlier versions lead there too.
    await go(page, '#/keep/work');
    await page.waitForFunction((to) => location.hash === to, addressOf('work', 'files'));
    await go(page, '#/drive/work');
    await page.waitForFunction((to) => location.hash === to, addressOf('work'));
  });

  await step('a check reads everything', async () => {
    await go(page, addressOf('work', 'settings'));
    await page.getByRole('button', { name: 'Check now' }).click();
    await page
      .getByText(/All is well: \d+ objects checked/)
      .first()
      .waitFor();
  });

  await step('room is given back, and what is kept stays', async () => {
    await go(page, addressOf('work', 'storage'));
    const asked = await dialog(page, page.getByRole('button', { name: 'Free up space' }), 'Free up space');
    await asked.getByRole('button', { name: 'Free up space' }).click();
    await page.getByText(/ freed\. /).waitFor();
    await until('the map has fewer cells here', async () => (await drawn(page)).includes('absent'));
    await sameMap(page, a);
  });
}

export async function keep(page, { a }, shot) {
  await step('a folder is kept, after its size was told', async () => {
    await go(page, addressOf('work', 'files'));
    await page.getByRole('heading', { name: 'Nothing kept offline' }).waitFor();
    const photos = page.getByRole('treeitem', { name: /^photos/ });
    await photos.waitFor();
    // Files whose space was freed are not here: a file says so at once, and a folder once it was opened.
    await page.getByRole('treeitem', { name: /^films/ }).focus();
    await page.keyboard.press('ArrowRight');
    await page.getByRole('treeitem', { name: /^one\.mkv.*Online only/ }).waitFor();
    await page.getByRole('treeitem', { name: /^films.*Online only/ }).waitFor();
    await page.keyboard.press('ArrowLeft');
    await accessible(page, 'Keep offline, empty');
    // All of it, whatever it is. Its contents can then no longer be chosen.
    const all = page.getByRole('checkbox', { name: 'All of work' });
    await all.focus();
    await page.keyboard.press(' ');
    await page.getByText(/^Keeps /).waitFor();
    assert.equal(await photos.getAttribute('aria-checked'), 'true');
    assert.equal(await photos.getAttribute('aria-disabled'), 'true');
    await page.keyboard.press(' ');
    await page.getByText(/^Keeps /).waitFor({ state: 'detached' });
    await photos.focus();
    await page.keyboard.press('ArrowRight');
    await page.getByRole('treeitem', { name: /^0\.jpg/ }).waitFor();
    await page.keyboard.press('ArrowLeft');
    await page.keyboard.press(' ');
    assert.equal(await photos.getAttribute('aria-checked'), 'true');
    await page.getByText(/^Keeps 24 MiB, /).waitFor();

    // A pin that does not fit is not started.
    await a.ok('limits', '--cache', '64M');
    const films = page.getByRole('treeitem', { name: /^films/ });
    await films.click();
    await page.getByText(/does not fit/).waitFor();
    assert.ok(await page.getByRole('button', { name: 'Keep offline', exact: true }).isDisabled());
    await accessible(page, 'Keep offline, too much');
    await films.click();
    await a.ok('limits', '--cache', 'auto');
    await page.getByText(/^Keeps 24 MiB, /).waitFor();
    assert.deepEqual(await a.ok('pins'), [], 'nothing is kept before it is confirmed');
    await accessible(page, 'Keep offline, chosen');
    await page.getByRole('button', { name: 'Keep offline' }).click();
    await page.getByText('Ready for offline: 12 of 12').waitFor();
    await page.getByRole('treeitem', { name: /^photos.*Always keep/ }).waitFor();
    await accessible(page, 'Keep offline');
    await shot('keep');
    const [pin] = await a.ok('pins');
    assert.equal(pin.state, 'Always keep');
  });

  await step('what is kept no more stays as long as there is room', async () => {
    const asked = await dialog(page, page.getByRole('button', { name: 'Stop keeping photos' }), 'Stop keeping');
    await asked.getByText(/Nothing is deleted\.$/).waitFor();
    await asked.getByRole('button', { name: 'Stop keeping' }).click();
    await page.getByRole('heading', { name: 'Nothing kept offline' }).waitFor();
    await page.getByRole('treeitem', { name: /^photos.*Available/ }).waitFor();
    await a.ok('pin', join(a.mnt, 'photos'));
    await page.getByRole('treeitem', { name: /^photos.*Always keep/ }).waitFor();
  });

  await step('the map shows what is kept', async () => {
    await go(page, addressOf('work', 'storage'));
    const cells = await sameMap(page, a);
    const states = [...new Set(cells)].sort();
    assert.ok(states.includes('pinned') && states.includes('absent'), states.join());
    const cache = page.getByRole('region', { name: 'Space on this computer' });
    await until('the bar has it too', async () => /Always keep\s+24 MiB/.test(await cache.innerText()));
    await until('what came is drawn', async () => (await line(page, 'down')).length > 2);
    await shot('map');
    return states.join(', ');
  });
}

/** Without this, saved data is uploaded within half a minute. */
async function uploadNow(page) {
  await go(page, addressOf('work'));
  await page.getByRole('button', { name: 'Upload now' }).click();
}

export async function network(page, { a, stand }, shot) {
  await step('without a network it says Offline, and what waits', async () => {
    await go(page, addressOf('work'));
    await stand.cut();
    await save(join(a.mnt, 'letters/2026/by-train.txt'), randomBytes(3 * MB));
    await uploadNow(page);
    await page.getByText('Your files are safe on this computer; uploads wait.').waitFor();
    await accessible(page, 'Drive, offline');
    await shot('drive-offline');
    await go(page, '#/');
    const card = row(page, 'work');
    await card.getByText('Offline', { exact: true }).waitFor();
    await card.getByText(/only here$/).waitFor();
    await page.getByText('work waits for its server.').waitFor();
    assert.equal(await page.getByText('Everything is uploaded').count(), 0, 'green while something is unsent');
    await page
      .getByRole('navigation')
      .getByText(/^Offline, .* waiting$/)
      .waitFor();
    await accessible(page, 'Home, offline');
    await shot('offline');
    // Pinned files are still there.
    assert.equal((await readFile(join(a.mnt, 'photos/3.jpg'))).length, 2 * MB);
    await go(page, addressOf('work', 'storage'));
    // The queue shows what was tried, why that failed, and when it is tried again.
    const queue = page.locator('section', { has: page.getByRole('heading', { name: 'Upload queue' }) });
    const tried = queue
      .getByRole('row')
      .filter({ has: page.locator('.error') })
      .first();
    await tried.waitFor();
    const [what, , tries, next] = await tried.getByRole('cell').allInnerTexts();
    assert.match(what, /^Data\n\S/);
    assert.ok(Number(tries) >= 1, tries);
    assert.match(next, /\d:\d\d/);
    const states = await sameMap(page, a);
    assert.ok(states.includes('failed'), 'the map shows what could not be uploaded');
    await accessible(page, 'Storage, offline');
    await shot('storage-offline');
  });

  await step('with the network back it is uploaded', async () => {
    await stand.restore();
    await go(page, addressOf('work'));
    await uploadNow(page);
    await page.getByRole('heading', { name: 'Everything is uploaded' }).waitFor();
    await go(page, addressOf('work', 'storage'));
    await page.getByText('Nothing waiting: everything is uploaded').waitFor();
    await go(page, '#/');
    await row(page, 'work')
      .getByText(/^All uploaded/)
      .waitFor();
    await page.getByRole('navigation').getByText('All changes uploaded').waitFor();
  });
}

export async function snapshot(page, { a }, shot) {
  await step('a snapshot is taken and looked at', async () => {
    await go(page, addressOf('work', 'versions'));
    const take = await dialog(page, page.getByRole('button', { name: 'Take snapshot' }), 'Take snapshot');
    await take.getByLabel('Name').fill('before');
    await page.keyboard.press('Enter');
    await page.getByRole('cell', { name: 'before', exact: true }).waitFor();
    await save(join(a.mnt, 'letters/2026/plan.txt'), 'south\n');
    const asked = await dialog(page, page.getByRole('button', { name: 'Browse snapshot before' }), 'Browse snapshot');
    await asked.getByRole('button', { name: /browse/i }).click();
    await asked.waitFor({ state: 'detached' });
    const at = await until('the snapshot is mounted', async () => {
      const mounts = (await readFile('/proc/mounts', 'utf8')).split('\n').map((line) => line.split(' ')[1]);
      for (const mount of mounts.filter((one) => one?.startsWith(a.dir))) {
        const text = await readFile(join(mount, 'letters/2026/plan.txt'), 'utf8').catch(() => '');
        if (text === 'north\n') return mount;
      }
    });
    await page.getByRole('cell', { name: /^before/ }).waitFor();
    await go(page, addressOf('work'));
    await page.getByText('This is the snapshot “before”; close the drive and open it again').waitFor();
    await go(page, addressOf('work', 'versions'));
    await page.getByRole('cell', { name: /^before/ }).waitFor();
    await shot('snapshots');
    return at;
  });

  await step('a snapshot becomes a drive, and a drive is removed from this computer', async () => {
    const clone = await dialog(page, page.getByRole('button', { name: 'Clone snapshot before' }), 'Clone snapshot');
    await clone.getByLabel('Name of the new drive').fill('not a name');
    assert.ok(await clone.getByRole('button', { name: 'Create drive' }).isDisabled(), 'no name');
    await clone.getByLabel('Name of the new drive').fill('then');
    await clone.getByRole('button', { name: 'Create drive' }).click();
    await clone.waitFor({ state: 'detached' });
    await go(page, addressOf('then'));
    await page.getByRole('button', { name: 'Open then' }).click();
    const at = await until('it is mounted', async () => (await a.status('then')).mountpoint);
    assert.equal(await readFile(join(at, 'letters/2026/plan.txt'), 'utf8'), 'north\n');
    await a.ok('drive', 'close', 'then', '--wait');
    const { size_bytes: before } = await a.status('then');
    const larger = before + 64 * 1024 ** 2;
    await go(page, addressOf('then', 'settings'));
    const grow = await dialog(page, page.getByRole('button', { name: 'Grow drive' }), 'Grow drive');
    const verb = grow.getByRole('button', { name: 'Grow drive' });
    await grow.getByLabel('Size').fill('1 MiB');
    assert.ok(await verb.isDisabled(), 'it cannot be made smaller');
    await grow.getByLabel('Size').fill(`${larger / 1024 ** 2} MiB`);
    await verb.click();
    await grow.waitFor({ state: 'detached' });
    await until('it has grown, elsewhere too', async () => {
      const { size_bytes, unpushed_bytes } = await a.status('then');
      return size_bytes === larger && unpushed_bytes === 0;
    });
    const asked = await dialog(page, page.getByRole('button', { name: 'Remove drive from this computer' }), 'Remove');
    await asked.getByText('Its data stays in its store.').waitFor();
    await asked.getByRole('button', { name: 'Remove drive from this computer' }).click();
    await page.getByRole('heading', { level: 1, name: 'Home' }).waitFor();
    await until('it is gone', async () => (await a.ok('drive', 'list')).every((drive) => drive.name !== 'then'));
    await go(page, addressOf('work', 'versions'));
    await page.getByRole('button', { name: 'Close work' }).waitFor();
  });

  await step('the drive goes on where it was', async () => {
    await page.getByRole('button', { name: 'Close work' }).click();
    await page.getByRole('button', { name: 'Open work' }).click();
    await until('the drive is open again', async () => (await a.status('work')).state === 'Ready');
    const { mountpoint } = await a.status('work');
    assert.equal(await readFile(join(mountpoint, 'letters/2026/plan.txt'), 'utf8'), 'south\n');
    a.mnt = mountpoint;
    const asked = await dialog(page, page.getByRole('button', { name: 'Delete snapshot before' }), 'Delete snapshot');
    await asked.getByRole('button', { name: 'Delete snapshot' }).click();
    await page.getByText('None yet. A snapshot keeps').waitFor();
  });
}

export async function fork(page, { a, b, stand, recovery }, shot, shotOf) {
  await step('another computer takes the drive over, and this one has a fork', async () => {
    await stand.cut();
    await save(join(a.mnt, 'letters/2026/sketch.txt'), 'from a\n');
    await uploadNow(page);
    // The other device has its own connection to the server, and its own browser.
    await b.start();
    const there = await open(page.context().browser(), await b.web());
    await there.getByRole('link', { name: 'Use an existing drive' }).click();
    await there.getByLabel('S3 bucket').check();
    await there.getByRole('button', { name: 'Continue' }).click();
    await there.getByLabel('Another S3 server').check();
    await there.getByLabel('Server address').fill(stand.server);
    await there.getByLabel('Bucket', { exact: true }).fill(stand.bucket);
    await there.getByLabel('Folder in the bucket').fill('work');
    await there.getByLabel('Access key ID').fill(stand.access_key);
    await there.getByLabel('Secret access key').fill(stand.secret_key);
    await there.getByRole('button', { name: 'Test connection' }).click();
    await there.getByText('several computers can use this store safely').waitFor();
    await there.getByRole('button', { name: 'Continue' }).click();
    // The page has found a drive.
    assert.ok(await there.getByLabel('Use an existing drive').isChecked());
    await there.getByRole('button', { name: 'Continue' }).click();

    // A wrong passphrase is reported where it is typed. If there are several drives, a person chooses, and reads whose they are.
    const next = there.getByRole('button', { name: 'Continue' });
    await there.getByRole('textbox', { name: 'Passphrase' }).fill('tangerine');
    await there.getByRole('button', { name: 'Find drives' }).click();
    await until('it is said there', async () => (await invalid(there)).join() === 'Passphrase');
    assert.ok(await next.isDisabled(), 'a wrong passphrase');
    await accessible(there, 'wizard, wrong passphrase');
    await there.getByLabel('Recovery key').check();
    await there.getByRole('textbox', { name: 'Recovery key' }).fill(recovery.toLowerCase());
    await there.keyboard.press('Enter');
    const which = there.getByRole('group', { name: 'Which of the 2 drives at this address?' });
    await which.waitFor();
    assert.ok(await next.isDisabled(), 'none is chosen');
    await which.getByRole('radio', { name: /^then ?576 MiB · last changed by / }).waitFor();
    await which.getByRole('radio', { name: /^work ?512 MiB · open on / }).check();
    const name = there.getByLabel('Name on this computer');
    assert.equal(await name.inputValue(), 'work');
    await accessible(there, 'wizard, which drive');
    await shotOf(there, 'add-existing');
    await next.click();
    await there.getByLabel('Mount at').fill(b.mnt);
    await next.click();
    await there.getByRole('button', { name: 'Add and open drive' }).click();

    // The drive is known here now, and held over there.
    await there.getByRole('heading', { name: /^work is open on / }).waitFor();
    await there.getByRole('button', { name: 'Take over' }).waitFor();
    await accessible(there, 'wizard, open elsewhere');
    await there.getByRole('link', { name: 'Go to the drive' }).click();
    // The page's heading gets the focus once it is there. A dialog that opened earlier returns the focus to it.
    await until('the page has the focus', () => there.evaluate(() => document.activeElement?.tagName === 'H1'));
    const held = await dialog(there, there.getByRole('button', { name: 'Open work' }), 'held');
    await held.getByRole('heading', { name: /^work is open on / }).waitFor();
    await held.getByText(/has not uploaded become a fork there\. Both versions are kept\.$/).waitFor();
    await shotOf(there, 'take-over');
    await held.getByRole('button', { name: 'Take over' }).click();
    await there.getByRole('button', { name: 'Close work' }).waitFor();
    b.mnt = await until('it is mounted there', async () => (await b.status('work')).mountpoint);
    assert.deepEqual(there.errors, []);
    await there.context().close();
    await save(join(b.mnt, 'letters/2026/postcard.txt'), 'from b\n');
    await b.ok('drive', 'close', 'work', '--wait');
    await stand.restore();
    await uploadNow(page);
    await go(page, '#/');
    await row(page, 'work').getByText('Conflict', { exact: true }).waitFor();
    await page
      .getByRole('region', { name: /^Needs you/ })
      .getByText('work has two versions')
      .waitFor();
    await accessible(page, 'Home, conflict');
    await shot('conflict');
  });

  await step('both versions are kept', async () => {
    await page.getByRole('link', { name: 'Compare: work' }).click();
    await page.getByRole('button', { name: 'Keep both' }).waitFor();
    // The size of the files of the first version is known. Of the other one, which is not mounted here, only its total size.
    await page.getByText(/^\d.* MiB of 512 MiB$/).waitFor();
    await page.getByText('512 MiB', { exact: true }).first().waitFor();
    await accessible(page, 'Forks');
    await shot('forks');
    const both = await dialog(page, page.getByRole('button', { name: 'Keep both' }), 'Keep both');
    await both.getByLabel('Name of the drive').fill('work-mine');
    await both.getByRole('button', { name: 'Make it a drive' }).click();
    await page.getByText('Every drive has one version.').waitFor();
    await go(page, '#/');
    // Both are open, without a click.
    for (const name of ['work', 'work-mine'])
      await page.getByRole('button', { name: `Copy path of ${name}`, exact: true }).waitFor();
    for (const name of ['work', 'work-mine'])
      await until('it is mounted', async () => (await a.status(name)).mountpoint);
    const [theirs, mine] = [await a.status('work'), await a.status('work-mine')];
    assert.deepEqual((await readdir(join(theirs.mountpoint, 'letters/2026'))).sort(), [
      'by-train.txt',
      'plan.txt',
      'postcard.txt',
    ]);
    assert.deepEqual((await readdir(join(mine.mountpoint, 'letters/2026'))).sort(), [
      'by-train.txt',
      'plan.txt',
      'sketch.txt',
    ]);
  });
}

export async function settings(page, { a }) {
  await step('settings are what the daemon obeys', async () => {
    await go(page, '#/settings');
    const network = page.getByRole('region', { name: 'Network' });
    await network.getByLabel('Limit uploads').first().check();
    await network.getByRole('textbox', { name: 'Limit uploads' }).fill('lots');
    assert.ok(await network.getByRole('button', { name: 'Save' }).isDisabled(), 'no size');
    await network.getByRole('textbox', { name: 'Limit uploads' }).fill('5 MiB');
    await network.getByRole('button', { name: 'Save' }).click();
    await network.getByText('Saved').waitFor();
    assert.equal((await a.ok('limits')).up_bytes_per_s, 5 * MB);
    await network.getByRole('checkbox', { name: 'Limit uploads' }).uncheck();
    await network.getByRole('button', { name: 'Save' }).click();
    await until('the limit is gone', async () => (await a.ok('limits')).up_bytes_per_s === null);

    // A change made elsewhere appears, and saving something else does not undo it.
    await a.ok('limits', '--down', '3M');
    const down = network.getByRole('textbox', { name: 'Limit downloads' });
    await until('it shows', async () => (await down.count()) === 1 && (await down.inputValue()) === '3 MiB');
    assert.ok(await network.getByRole('button', { name: 'Save' }).isDisabled(), 'nothing was changed here');
    await a.ok('limits', '--down', 'off');
    await down.waitFor({ state: 'detached' });

    const hours = 'Pause uploads and background downloads at certain hours';
    await network.getByRole('checkbox', { name: hours }).check();
    // The whole Saturday.
    for (const day of ['Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday']) {
      await network.getByRole('checkbox', { name: day }).uncheck();
    }
    assert.ok(await network.getByRole('button', { name: 'Save' }).isDisabled(), 'no day');
    await network.getByRole('checkbox', { name: 'Saturday' }).check();
    await network.getByLabel('From').fill('22:30');
    await network.getByLabel('until', { exact: true }).fill('06:00');
    await accessible(page, 'quiet hours');
    await network.getByRole('button', { name: 'Save' }).click();
    const saturday = [false, false, false, false, false, true, false];
    await until('they are kept', async () => (await a.ok('limits')).quiet?.from_minute === 22 * 60 + 30);
    assert.deepEqual((await a.ok('limits')).quiet.days, saturday);
    await network.getByRole('checkbox', { name: hours }).uncheck();
    await network.getByRole('button', { name: 'Save' }).click();
    await until('they are gone', async () => (await a.ok('limits')).quiet === null);

    const metered = network.getByRole('checkbox', {
      name: 'Pause uploads and background downloads on metered networks',
    });
    const before = (await a.ok('limits')).on_metered;
    assert.equal(await metered.isChecked(), before === 'pause');
    const other = before === 'pause' ? 'go_on' : 'pause';
    await metered.setChecked(other === 'pause');
    await network.getByRole('button', { name: 'Save' }).click();
    await until('it is another one', async () => (await a.ok('limits')).on_metered === other);
    await metered.setChecked(before === 'pause');
    await network.getByRole('button', { name: 'Save' }).click();
    await until('it is as it was', async () => (await a.ok('limits')).on_metered === before);

    await network.getByRole('button', { name: 'For an hour' }).click();
    await network.getByText(/^Paused until /).waitFor();
    assert.ok((await a.ok('limits')).paused_until);
    await network.getByRole('button', { name: 'Resume now' }).click();
    await until('nothing is paused', async () => (await a.ok('limits')).paused_until === null);
  });

  await step('the cache is as large as it may be, and no smaller than what has to stay', async () => {
    const cache = page.getByRole('region', { name: 'Cache' });
    const limit = cache.getByRole('textbox', { name: 'Limit the cache of each drive' });
    await cache.getByRole('checkbox', { name: 'Limit the cache of each drive' }).check();
    await limit.fill('1 MiB');
    await cache.getByRole('button', { name: 'Save' }).click();
    await cache.getByRole('alert').waitFor();
    assert.equal((await a.ok('limits')).cache_bytes, null);
    await accessible(page, 'Cache, refused');
    await limit.fill('2 GiB');
    await cache.getByRole('checkbox', { name: 'Slow down thumbnailers and indexers' }).uncheck();
    await cache.getByRole('button', { name: 'Save' }).click();
    await cache.getByText('Saved').waitFor();
    const { cache_bytes, indexers } = await a.ok('limits');
    assert.deepEqual([cache_bytes, indexers], [2 * 1024 * MB, 'full']);
    assert.equal((await a.status('work')).cache_limit_bytes, 2 * 1024 * MB);
    await cache.getByRole('checkbox', { name: 'Limit the cache of each drive' }).uncheck();
    await cache.getByRole('checkbox', { name: 'Slow down thumbnailers and indexers' }).check();
    await cache.getByText('at most half of the free disk space').waitFor();
    await cache.getByRole('button', { name: 'Save' }).click();
    await until('there is no limit', async () => (await a.ok('limits')).cache_bytes === null);
  });

  await step('problems are looked for, and a report is read before it is given away', async () => {
    const region = page.getByRole('region', { name: 'Diagnostics' });
    const look = region.getByRole('button', { name: 'Look now' });
    await look.focus();
    await page.keyboard.press('Enter');
    const well = region.getByText(/^All right \(/);
    await well.waitFor();
    await until('the focus stays', () => look.evaluate((one) => one === document.activeElement));
    const told = await a.holdall('doctor');
    const { findings, summary } = JSON.parse(told.out || told.err);
    await region.getByText(summary, { exact: true }).waitFor();
    await well.click();
    const shown = await region.getByRole('listitem').locator('strong').allTextContents();
    assert.deepEqual(
      shown,
      findings.map((one) => one.subject),
    );
    await accessible(page, 'problems');
    const report = await dialog(page, region.getByRole('button', { name: 'Collect report' }), 'report');
    await report.getByRole('combobox', { name: 'File' }).waitFor();
    await page.keyboard.press('Escape');
    await report.waitFor({ state: 'detached' });
  });
}

export async function security(page, { a, stand, dir }, shot) {
  const region = page.getByRole('region', { name: 'Security' });

  await step('a new passphrase is the one that counts', async () => {
    await go(page, '#/settings');
    const asked = await dialog(page, region.getByRole('button', { name: 'Change passphrase' }), 'Change passphrase');
    await asked.getByLabel('Drive').selectOption('work');
    await asked.getByLabel('New passphrase').fill(given('marmalade'));
    await asked.getByLabel('Repeat passphrase').fill('marmelade');
    const verb = asked.getByRole('button', { name: 'Change passphrase' });
    assert.ok(await verb.isDisabled(), 'not the same');
    await asked.getByLabel('Repeat passphrase').fill('marmalade');
    await verb.click();
    await region.getByText('The passphrase of work was changed.').waitFor();

    const third = await new Machine(dir, 'third').start();
    try {
      const [login, secret] = [join(third.dir, 'login'), join(third.dir, 'secret')];
      await save(login, `${stand.access_key}:${stand.secret_key}\n`);
      const { store } = await a.status('work');
      const add = ['drive', 'add', 'work', '--store', store, '--credentials-file', login, '--passphrase-file', secret];
      await save(secret, `${PASSPHRASE}\n`);
      const refused = await third.holdall(...add);
      assert.equal(JSON.parse(refused.err || refused.out).code, 'passphrase_wrong');
      await save(secret, 'marmalade\n');
      await third.ok(...add);
    } finally {
      await third.end();
    }
  });

  await step('another recovery key takes the place of one that is lost', async () => {
    await go(page, '#/settings');
    const asked = await dialog(page, region.getByRole('button', { name: 'New recovery key' }), 'New recovery key');
    await asked.getByLabel('Drive').selectOption('work');
    await asked.getByRole('button', { name: 'New recovery key' }).click();
    await asked.getByRole('button', { name: 'I have written it down' }).waitFor();
    const groups = await asked.locator('ol.groups code').allTextContents();
    const key = given(groups.join('-'));
    await accessible(page, 'New recovery key');
    const leave = page.getByRole('heading', { name: 'Leave without writing down the recovery key?' });
    await page.keyboard.press('Escape');
    await leave.waitFor();
    await asked.getByRole('button', { name: 'Cancel' }).click();
    // The browser's back button asks, too.
    await page.goBack();
    await leave.waitFor();
    await asked.getByRole('button', { name: 'Cancel' }).click();
    assert.match(page.url(), /#\/settings$/);
    await asked.getByRole('button', { name: 'I have written it down' }).click();
    await typeGroups(asked, groups);
    await asked.getByRole('button', { name: 'Continue' }).click();
    await asked.waitFor({ state: 'detached' });

    const third = await new Machine(dir, 'third-by-key').start();
    try {
      const [login, secret] = [join(third.dir, 'login'), join(third.dir, 'key')];
      await save(login, `${stand.access_key}:${stand.secret_key}\n`);
      await save(secret, `${key}\n`);
      const { store } = await a.status('work');
      await third.ok(
        'drive',
        'add',
        'work',
        '--store',
        store,
        '--credentials-file',
        login,
        '--recovery-key-file',
        secret,
      );
    } finally {
      await third.end();
    }
  });

  await step('who logs out can log in again, and what waited is uploaded', async () => {
    const leave = await dialog(page, region.getByRole('button', { name: /^Log out of/ }), 'Log out');
    await leave.getByRole('button', { name: 'Log out' }).click();
    await region.getByText('None yet. Adding a drive saves its login here.').waitFor();
    assert.deepEqual(await a.ok('store', 'list'), []);

    await go(page, addressOf('work'));
    await save(join((await a.status('work')).mountpoint, 'letters/2026/late.txt'), 'late\n');
    await uploadNow(page);
    await page.getByRole('button', { name: 'Log in' }).waitFor();

    // At a glance: what is wrong, what it means, and what to do; and nothing is green.
    await page.getByText("Log in to the store again: on the drive's page, or under Settings, Security.").waitFor();
    await go(page, '#/');
    const card = row(page, 'work');
    await card.getByText('Needs attention', { exact: true }).waitFor();
    const needs = page.getByRole('region', { name: /^Needs you/ });
    await needs
      .getByText('Its store refuses access. Changes that are not uploaded yet stay on this computer.')
      .first()
      .waitFor();
    await needs.getByRole('button', { name: 'Log in to the store of work', exact: true }).waitFor();
    await card.getByText(/only here$/).waitFor();
    assert.equal(await page.getByText('Everything is uploaded').count(), 0);
    // The open fork may also have something to upload: the file system's own writes.
    await page
      .getByRole('navigation')
      .getByText(/(1 drive needs|2 drives need) attention/)
      .waitFor();
    await accessible(page, 'Home, needs attention');
    await shot('attention');
    const logIn = needs.getByRole('button', { name: 'Log in to the store of work', exact: true });
    const asked = await dialog(page, logIn, 'Log in');
    const verb = asked.getByRole('button', { name: 'Log in' });
    assert.ok(await verb.isDisabled(), 'nothing was typed');
    await asked.getByLabel('Access key ID').fill(stand.access_key);
    await asked.getByLabel('Secret access key').fill('battery-staple');
    await verb.click();
    await asked.getByRole('alert').waitFor();
    await accessible(page, 'Log in, refused');
    await asked.getByLabel('Secret access key').fill(stand.secret_key);
    await verb.click();
    await asked.waitFor({ state: 'detached' });
    await row(page, 'work')
      .getByText(/^All uploaded/)
      .waitFor();
    assert.equal((await a.ok('store', 'list')).length, 1);

    // New keys for a store that is in use.
    await go(page, '#/settings');
    const change = await dialog(page, region.getByRole('button', { name: /^Change the login of/ }), 'Change login');
    await change.getByLabel('Secret access key').waitFor();
    await page.keyboard.press('Escape');
    await change.waitFor({ state: 'detached' });
  });
}

/** Removes the second drive, with its changes that exist only on this computer. */
export async function lose(page, { a }) {
  await step('who removes a drive with something unsent is told what is lost, on the button itself', async () => {
    await go(page, addressOf('second'));
    await page.getByRole('button', { name: 'Pause uploads of second' }).click();
    await page.getByRole('button', { name: 'Resume uploads of second' }).waitFor();
    await save(join((await a.status('second')).mountpoint, 'lost.bin'), randomBytes(3 * MB));
    await until('something is only here', async () => (await a.status('second')).unpushed_bytes > 3 * MB);
    await until('the page knows it', async () => /[\d.]+ MiB only on this computer/.test(await overview(page)));
    await page.getByRole('button', { name: 'Close second' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Close', exact: true }).last().click();
    await go(page, addressOf('second', 'settings'));
    const remove = page.getByRole('button', { name: 'Remove drive from this computer' });
    await remove.waitFor();
    const asked = await dialog(page, remove, 'Remove, unsent');
    await asked.getByText(/MiB exist only on this computer and would be lost permanently\./).waitFor();
    const verb = asked.getByRole('button', { name: /^Remove and lose: \d.* MiB$/ });
    assert.ok(await verb.isDisabled(), 'not before its name is typed');
    await asked.getByLabel('Type second to continue').fill('second');
    await verb.click();
    await page.getByRole('heading', { level: 1, name: 'Home' }).waitFor();
    await until('it is gone', async () => (await a.ok('drive', 'list')).every((drive) => drive.name !== 'second'));
    await page.getByRole('link', { name: 'second', exact: true }).waitFor({ state: 'detached' });
  });
}

/** A button removes what a crash has left, and the drive is as before. */
export async function crash(page, { a, stand }) {
  await step('what a crash has left is found, and repaired', async () => {
    await go(page, addressOf('work'));
    const { mountpoint, store } = await a.status('work');
    await save(join(mountpoint, 'letters/2026/saved.txt'), 'saved\n');
    // The next daemon would continue with all of it if it could open the drive.
    await a.ok('store', 'logout', store);
    await a.crash('work');
    await page.goto((await a.ok('web')).url);
    await until('it cannot be opened again', async () => (await a.status('work')).needs_login);
    assert.ok((await readFile('/proc/mounts', 'utf8')).includes(` ${mountpoint} `), 'it has left a mount');
    // No request was refused: the page says what is missing and what to do, in its own words.
    await go(page, addressOf('work'));
    await page
      .getByText(/^There are no credentials for /)
      .first()
      .waitFor();
    await page
      .getByText("Log in to the store again: on the drive's page, or under Settings, Security.")
      .first()
      .waitFor();
    assert.equal(await page.getByText('refuses access').count(), 0);

    await go(page, '#/settings');
    const region = page.getByRole('region', { name: 'Diagnostics' });
    const look = region.getByRole('button', { name: 'Look now' });
    const found = region.getByRole('listitem').filter({ has: page.getByText('drive work', { exact: true }) });
    await look.click();
    await found.getByText(/^An earlier background service left/).waitFor();
    assert.doesNotMatch(await found.innerText(), /holdall [a-z]|--[a-z]/, 'there is a button for that');
    await accessible(page, 'a crash, found');
    await region.getByRole('button', { name: 'Repair what can be repaired' }).focus();
    await page.keyboard.press('Enter');
    await found.getByText('repaired').waitFor();
    await accessible(page, 'a crash, repaired');
    await until('the focus is not lost', () => look.evaluate((one) => one === document.activeElement));
    assert.equal(await region.getByRole('button', { name: 'Repair what can be repaired' }).count(), 0);
    await page.keyboard.press('Enter');
    await found.waitFor({ state: 'detached' });
    assert.ok(!(await readFile('/proc/mounts', 'utf8')).includes(a.dir), 'nothing is left');
    // Its store has no login.
    const left = await a.holdall('doctor');
    const problems = JSON.parse(left.out || left.err).findings.filter((one) => !one.ok);
    assert.deepEqual(
      problems.map((one) => one.subject.split(' ')[0]),
      ['login'],
    );
  });

  await step('and the drive opens with all that was saved', async () => {
    await go(page, addressOf('work'));
    const asked = await dialog(page, page.getByRole('button', { name: 'Log in' }), 'Log in');
    await asked.getByLabel('Access key ID').fill(stand.access_key);
    await asked.getByLabel('Secret access key').fill(stand.secret_key);
    await asked.getByRole('button', { name: 'Log in' }).click();
    await asked.waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Open work', exact: true }).click();
    await page.getByRole('button', { name: 'Close work', exact: true }).waitFor();
    const at = await until('it is mounted', async () => (await a.status('work')).mountpoint);
    assert.equal(await readFile(join(at, 'letters/2026/saved.txt'), 'utf8'), 'saved\n');
  });
}

const overview = (page) => page.getByRole('main').innerText();

export async function down(page, { a }, shot) {
  await step('a daemon that is gone is told, with how to start it', async () => {
    await go(page, '#/');
    const card = row(page, 'work');
    const files = card.getByRole('button', { name: 'Copy path of work', exact: true });
    await files.waitFor();
    const port = new URL(page.url()).port;
    await go(page, addressOf('work', 'storage'));
    const promises = page.locator('main :is(.badge, .done)');
    await promises.first().waitFor();
    await a.ok('daemon', 'stop');
    await page.getByRole('heading', { name: 'Background service is not running' }).waitFor();
    // The unsynced data in memory is no longer counted: nothing is green.
    const looks = await promises.evaluateAll((all) =>
      all.map((one) => `${getComputedStyle(one).color} ${getComputedStyle(one).filter}`),
    );
    assert.ok(looks.length > 0 && new Set(looks).size === 1 && looks[0].endsWith(' grayscale(1)'), looks.join());
    await go(page, '#/');
    // Earlier data is marked as such: with its age, without a promising colour, and without buttons that cannot work.
    await page.getByText(/^Last known /).waitFor();
    await card.waitFor();
    assert.equal(await card.getByRole('button').count(), 0);
    const colours = await card
      .locator('.line, .badge')
      .evaluateAll((all) => all.map((one) => getComputedStyle(one).color));
    assert.equal(new Set(colours).size, 1, colours.join());
    await accessible(page, 'daemon down');
    await shot('down');

    // A new daemon uses the same port, and knows this browser.
    await a.ok('status');
    await until('the page goes on by itself', () => files.isVisible());
    assert.equal(new URL(page.url()).port, port);

    // Stopping the pages ends the sessions. The new address signs this browser in again, with everything it had kept.
    await a.ok('web', '--stop');
    await page.getByRole('heading', { name: 'Background service is not running' }).waitFor();
    const { url } = await a.ok('web');
    assert.equal(new URL(url).port, port);
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByRole('heading', { name: "This page's session has ended" }).waitFor();
    await accessible(page, 'session ended');
    const other = await page.context().newPage();
    await other.goto(url);
    await row(other, 'work').getByRole('button', { name: 'Copy path of work', exact: true }).waitFor();
    await until('the first page goes on too', () => files.isVisible());
    await other.close();
  });
}

export async function elsewhere(page, { a, dir }, shotOf) {
  await step('a browser of another computer signs in with the password', async () => {
    const file = join(dir, 'password');
    await writeFile(file, `${PASSWORD}\n`);
    const { url } = await a.ok('web', '--listen', '127.0.0.1:0', '--password-file', file);
    // The certificate is self-signed: a person compares it.
    const there = await open(page.context().browser(), url, { ignoreHTTPSErrors: true });
    await accessible(there, 'sign in');
    await there.getByLabel('Password').fill('wrong');
    await there.getByRole('button', { name: 'Sign in' }).click();
    await there.getByText('This is not the password.').waitFor();
    await accessible(there, 'sign in, wrong password');
    await shotOf(there, 'sign-in');
    await there.getByLabel('Password').fill(PASSWORD);
    await there.keyboard.press('Enter');
    await row(there, 'work').getByRole('button', { name: 'Copy path of work', exact: true }).waitFor();
    // It works like the pages on this computer: a change there takes effect.
    await there.evaluate(() => (location.hash = '#/settings'));
    const network = there.getByRole('region', { name: 'Network' });
    await network.getByRole('checkbox', { name: 'Limit uploads' }).check();
    await network.getByRole('textbox', { name: 'Limit uploads' }).fill('7 MiB');
    await network.getByRole('button', { name: 'Save' }).click();
    await until('it is limited', async () => (await a.ok('limits')).up_bytes_per_s === 7 * MB);
    await a.ok('limits', '--up', 'off');
    assert.deepEqual(there.errors, []);
    await there.context().close();
  });
}

export async function activity(page) {
  await step('what happened is listed, and filtered', async () => {
    await go(page, '#/activity');
    await page.getByRole('article').first().waitFor();
    await page.getByLabel('Kind').selectOption('Conflict');
    await page.getByRole('article').filter({ hasText: 'Conflict' }).first().waitFor();
    await until('nothing else is shown', async () => {
      const kinds = await page.getByRole('article').locator('p.small span:first-child').allTextContents();
      return kinds.length > 0 && kinds.every((kind) => kind === 'Conflict');
    });
    await page.getByLabel('Kind').selectOption('All');
    await page.getByLabel('Drive or folder', { exact: true }).selectOption('second');
    await page.getByRole('article').filter({ hasText: 'second' }).first().waitFor();
    await accessible(page, 'Activity');
    await page.getByLabel('Drive or folder', { exact: true }).selectOption('All');
  });
}

/** Both computers save something of their own, while the other one takes the drive over. */
async function parted(page, { a, b, stand }, here, there) {
  await go(page, addressOf('work'));
  await page.getByRole('button', { name: 'Close work' }).waitFor();
  await stand.cut();
  await save(join((await a.status('work')).mountpoint, 'letters/2026', here), 'from a, again\n');
  await uploadNow(page);
  const mounted = join(b.dir, 'again');
  await b.ok('drive', 'open', 'work', '--at', mounted, '--take-over', '--yes');
  await save(join(mounted, 'letters/2026', there), 'from b, again\n');
  await b.ok('drive', 'close', 'work', '--wait');
  await stand.restore();
  await uploadNow(page);
}

export async function again(page, all, shot) {
  const { a } = all;
  await step('the other version is used; the fork is looked at, and deleted', async () => {
    const letters = () => lettersOf(a, 'work');
    await parted(page, all, 'draft.txt', 'final.txt');
    await go(page, addressOf('work', 'versions'));
    const use = await dialog(
      page,
      page.getByRole('button', { name: 'Use the current version' }),
      'Use the current version',
    );
    await use.getByText(/with the current version from \S+, .*\. The fork is kept\.$/).waitFor();
    await use.getByRole('button', { name: 'Close and reopen' }).click();
    await use.waitFor({ state: 'detached' });
    assert.ok((await letters()).includes('final.txt') && !(await letters()).includes('draft.txt'));

    // Differences are shown by file, and both versions stay unchanged.
    await page.getByRole('button', { name: 'Compare files' }).click();
    await page.getByRole('heading', { name: /^Differences: / }).waitFor();
    for (const [file, had] of [
      ['letters/2026/draft.txt', /^\d.*not there$/],
      ['letters/2026/final.txt', /^not there\d/],
    ]) {
      const row = page.getByRole('row').filter({ has: page.getByRole('rowheader', { name: file, exact: true }) });
      assert.match((await row.getByRole('cell').allTextContents()).map((text) => text.trim()).join(''), had);
    }
    await accessible(page, 'Forks, compared');
    await shot('compare');
    assert.equal((await a.ok('drive', 'forks', 'work'))[0].mountpoint, null);

    // The fork is still there, complete.
    await page.getByRole('button', { name: 'Open it' }).click();
    await page.getByRole('button', { name: 'Close it' }).waitFor();
    const [fork] = await a.ok('drive', 'forks', 'work');
    assert.ok((await readdir(join(fork.mountpoint, 'letters/2026'))).includes('draft.txt'));
    await accessible(page, 'Forks, one that is open');

    const asked = await dialog(page, page.getByRole('button', { name: 'Delete the fork' }), 'Delete the fork');
    const verb = asked.getByRole('button', { name: 'Delete the fork permanently' });
    assert.ok(await verb.isDisabled(), 'not before its name is typed');
    await asked.getByLabel('Type work to continue').fill('work');
    await verb.click();
    await page.getByText('Every drive has one version.').waitFor();
    assert.deepEqual(await a.ok('drive', 'forks', 'work'), []);
  });

  await step('this version is used, where the drive was, and the other one stays', async () => {
    await parted(page, all, 'mine.txt', 'theirs.txt');
    const { mountpoint } = await a.status('work');
    await go(page, addressOf('work', 'versions'));
    const use = await dialog(page, page.getByRole('button', { name: 'Use this fork' }), 'Use this fork');
    await use.getByText(/^The fork from \S+ \(this computer\), .* becomes a separate drive/).waitFor();
    await use.getByText('work will be closed for this. Close its files first.').waitFor();
    await use.getByLabel('Name of the drive').fill('work');
    await use.getByText('This computer already has a drive called work.').waitFor();
    assert.ok(await use.getByRole('button', { name: 'Make it a drive' }).isDisabled(), 'the name is taken');
    await use.getByLabel('Name of the drive').fill('work-here');
    await use.getByRole('button', { name: 'Make it a drive' }).click();
    await use.waitFor({ state: 'detached' });
    await page.getByText('Every drive has one version.').waitFor();
    await until(
      'the fork is open where the drive was',
      async () => (await a.status('work-here')).mountpoint === mountpoint,
    );
    assert.equal((await a.status('work')).mountpoint, null);
    const letters = await readdir(join(mountpoint, 'letters/2026'));
    assert.ok(letters.includes('mine.txt') && !letters.includes('theirs.txt'), letters.join());

    // The other version is a click away. This one is put away, so that the rest has only one of the two drives.
    await a.ok('drive', 'close', 'work-here', '--wait');
    await go(page, '#/');
    await page.getByRole('button', { name: 'Open work', exact: true }).click();
    await page.getByRole('button', { name: 'Copy path of work', exact: true }).waitFor();
    assert.ok((await lettersOf(a, 'work')).includes('theirs.txt'));
  });
}

async function lettersOf(machine, name) {
  const at = await until(`${name} is mounted`, async () => (await machine.status(name)).mountpoint);
  return readdir(join(at, 'letters/2026'));
}

export async function place(page, { a }, shot) {
  await step('a folder is chosen and created, and files of others are seen', async () => {
    const shelf = join(a.dir, 'shelf');
    await mkdir(join(shelf, 'letters'), { recursive: true });
    await writeFile(join(shelf, 'plan.txt'), "somebody else's");
    await go(page, '#/add/drive');
    await page.getByLabel('Disk or folder').check();
    await page.getByRole('button', { name: 'Continue' }).click();
    const field = page.getByLabel('Folder', { exact: true });
    await field.fill(join(shelf, 'not-yet'));
    const chooser = await dialog(page, page.getByRole('button', { name: /^Browse/ }), 'Browse');
    // If a path does not exist, the nearest existing folder above it is shown. Files cannot be chosen.
    await chooser.getByText(shelf, { exact: true }).waitFor();
    await chooser.getByRole('button', { name: 'letters' }).waitFor();
    assert.equal(await chooser.getByText('plan.txt').count(), 0);
    await chooser.getByRole('button', { name: 'New folder' }).click();
    // A name is only a name, whatever it looks like.
    await chooser.getByLabel('Name of the new folder').fill('<b>50%25</b>');
    assert.deepEqual(await invalid(page), ['Name of the new folder']);
    await chooser.getByLabel('Name of the new folder').fill('<b>50%25');
    await chooser.getByLabel('Name of the new folder').press('Enter');
    await chooser.getByText(join(shelf, '<b>50%25'), { exact: true }).waitFor();
    await shot('browse');
    await chooser.getByRole('button', { name: 'Use this folder' }).click();
    assert.equal(await field.inputValue(), join(shelf, '<b>50%25'));
    await field.press('Enter');
    await page.getByText('several computers can use this store safely').waitFor();
    assert.equal(await page.getByText(/^Other files are here/).count(), 0);

    await field.fill(shelf);
    await field.press('Enter');
    await page.getByText('Other files are here: <b>50%25, letters, plan.txt').waitFor();
    assert.ok(await page.getByLabel(`Use a folder of its own: ${shelf}/holdall`).isChecked());
    await accessible(page, 'wizard, other files');
    await shot('other-files');
  });

  await step('nothing moves while a passphrase is repeated', async () => {
    const next = page.getByRole('button', { name: 'Continue' });
    await next.click();
    await page.getByLabel('Name', { exact: true }).fill('shelved');
    await page.getByLabel('Size').fill('64 MiB');
    await next.click();
    const top = () => next.evaluate((button) => button.getBoundingClientRect().top);
    const [begun, again] = [await top(), page.getByLabel('Repeat passphrase')];
    await page.getByLabel('Passphrase', { exact: true }).fill('tan');
    assert.equal(await top(), begun);
    await page.getByLabel('Passphrase', { exact: true }).fill(PASSPHRASE);
    for (const typed of ['t', 'tangerine', PASSPHRASE]) {
      await again.fill(typed);
      assert.equal(await top(), begun, typed);
    }
    await page.evaluate(() => localStorage.clear());
    await page.reload();
  });
}
