// Everything with the keyboard alone, with a visible focus.

import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { accessible, addressOf, go, PATIENCE_MS, step, until } from './steps.mjs';

const focused = (page) =>
  page.evaluate(() => {
    const at = document.activeElement;
    const style = getComputedStyle(at);
    const name = at.getAttribute('aria-label') || at.labels?.[0]?.textContent || at.textContent || at.title || '';
    const box = at.getBoundingClientRect();
    return {
      tag: at.tagName.toLowerCase(),
      type: at.type ?? '',
      name: name.trim().replace(/\s+/g, ' '),
      seen: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2 && box.width > 0,
      disabled: at.disabled === true,
    };
  });

/** The focus follows what is shown, once that is drawn. */
async function focusComes(page, name) {
  const begun = Date.now();
  const isIt = (it) => (name instanceof RegExp ? name.test(it) : it === name);
  while (!isIt((await focused(page)).name)) {
    assert.ok(Date.now() - begun < 10_000, `the focus is not on ${name}`);
    await page.waitForTimeout(20);
  }
}

/** Presses Tab until something with that name has the focus. Everything on the way must show its focus. */
async function tab(page, name, key = 'Tab') {
  const way = [];
  for (let turn = 0; turn < 80; turn += 1) {
    await page.keyboard.press(key);
    const at = await focused(page);
    way.push(`${at.tag} ${at.name}`);
    if (at.tag !== 'body') assert.ok(at.seen, `the focus on ${at.tag} "${at.name}" is not in sight`);
    if (name instanceof RegExp ? name.test(at.name) : at.name === name) return at;
  }
  assert.fail(`${name} is not reached: ${way.join(', ')}`);
}

/** The stops of Tab; one for each group of radio buttons. */
const STOPS = 'a[href], button, input:not([type=radio]), select, summary, [tabindex="0"]';

/**
 * A dialog that everybody can use, opened by `button` and left open. The focus moves into it, is always visible, reaches everything,
 * does not leave, and returns after Escape. A screen reader finds nothing wrong in it.
 */
export async function dialog(page, button, where) {
  const asked = page.getByRole('dialog');
  const open = async () => {
    await button.focus();
    await page.keyboard.press('Enter');
    await asked.waitFor();
  };
  await open();
  await accessible(page, where);
  const inside = () => page.evaluate(() => document.activeElement.closest('dialog') !== null);
  assert.ok(await inside(), `${where}: the focus is not in the dialog`);
  const stops = await asked.locator(STOPS).count();
  for (let turn = 0; turn < stops + 3; turn += 1) {
    const at = await focused(page);
    // After the last of them comes the browser's own frame.
    if (at.tag !== 'body') {
      assert.ok(await inside(), `${where}: the focus has left the dialog for ${at.tag} "${at.name}"`);
      if (turn > 0) assert.ok(at.seen, `${where}: the focus on ${at.tag} "${at.name}" is not in sight`);
    }
    await page.evaluate(() => {
      document.activeElement.dataset.tabbed = '1';
    });
    await page.keyboard.press('Tab');
  }
  const missed = await asked
    .locator(STOPS)
    .evaluateAll((all) => all.filter((one) => !one.disabled && !one.dataset.tabbed).map((one) => one.outerHTML));
  assert.deepEqual(missed, [], `${where}: what the keyboard does not reach`);
  await page.keyboard.press('Escape');
  // A closed dialog has no role any longer, but the page may not have noticed the closing yet.
  await page.locator('dialog').waitFor({ state: 'detached' });
  const isBack = () => button.evaluate((one) => one === document.activeElement);
  await until(`${where}: the focus is back`, isBack).catch(async (error) => {
    throw new Error(`${error.message}, but on ${JSON.stringify(await focused(page))}`);
  });
  await open();
  return asked;
}

/** Opens the wizard, and selects a kind of place with the arrow key. */
async function begin(page, arrow, kind) {
  await go(page, '#/');
  await tab(page, 'Add');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Add a drive or folder' }).waitFor();
  await focusComes(page, 'Add a drive or folder');
  await tab(page, 'Make a drive');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Add drive' }).waitFor();
  await focusComes(page, 'Add drive');
  await tab(page, /^S3 bucket/);
  await page.keyboard.press(arrow);
  assert.ok(await page.getByLabel(kind).isChecked());
  await tab(page, 'Continue');
  await page.keyboard.press('Enter');
}

/** Types texts into fields, one after the other. The last one ends with Enter. */
async function fill(page, fields) {
  for (const [label, text] of fields) {
    await tab(page, label);
    await page.keyboard.press('Control+A');
    await page.keyboard.type(text);
  }
  await page.keyboard.press('Enter');
}

/** Continues from the result of the store's test to a mounted drive. */
async function finish(page, { a }, name) {
  await page
    .getByText(/can use this store safely|one computer at a time/)
    .first()
    .waitFor();
  await tab(page, 'Continue');
  await page.keyboard.press('Enter');
  await fill(page, [
    ['Name', name],
    ['Size', '64 MiB'],
  ]);
  await tab(page, /^Encrypt everything/);
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await fill(page, [['Mount at', join(a.dir, name)]]);
  await tab(page, 'Create and open drive');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: `${name} is ready` }).waitFor();
  assert.equal((await a.status(name)).mountpoint, join(a.dir, name));
}

/** Another page of the same browser. */
async function another(page) {
  const other = await page.context().newPage();
  other.setDefaultTimeout(PATIENCE_MS);
  await other.goto(page.url());
  return other;
}

async function putAway({ a }, name) {
  await a.ok('drive', 'close', name, '--wait');
  await a.ok('drive', 'remove', name, '--yes');
}

export async function keys(page, all) {
  const { a, stand } = all;
  await step('a second drive is made by the keyboard alone', async () => {
    await mkdir(join(a.dir, 'disk'));
    await begin(page, 'ArrowUp', 'Disk or folder');
    await fill(page, [['Folder', join(a.dir, 'disk')]]);
    await finish(page, all, 'second');
  });

  await step('so is one in a bucket, with a draft that outlives the window', async () => {
    let other = await another(page);
    // The arrows wrap around.
    await begin(other, 'ArrowDown', 'WebDAV');
    await tab(other, 'Back', 'Shift+Tab');
    await other.keyboard.press('Enter');
    await tab(other, /^WebDAV/);
    await other.keyboard.press('ArrowUp');
    await tab(other, 'Continue');
    await other.keyboard.press('Enter');
    await tab(other, 'Amazon S3');
    await other.keyboard.press('ArrowRight');
    assert.ok(await other.getByLabel('Another S3 server').isChecked());
    await fill(other, [
      ['Server address', stand.proxy],
      ['Bucket', stand.bucket],
      ['Folder in the bucket', 'third'],
    ]);
    await other.close();
    other = await another(page);
    await go(other, '#/add/drive');
    await other.getByText('Your draft is back').waitFor();
    assert.equal(await other.getByLabel('Folder in the bucket').inputValue(), 'third');
    await fill(other, [
      ['Access key ID', stand.access_key],
      ['Secret access key', stand.secret_key],
    ]);
    await finish(other, all, 'third');
    await other.close();
    await putAway(all, 'third');
  });

  await step('and one on a WebDAV server', async () => {
    const address = `${all.dav.address}fourth`;
    await begin(page, 'ArrowDown', 'WebDAV');
    await fill(page, [
      ['Address', address],
      ['User', all.dav.user],
      ['Password', all.dav.password],
    ]);
    await finish(page, all, 'fourth');
    await putAway(all, 'fourth');
    await a.ok('store', 'logout', address);
  });

  await step('a dialog takes the focus, and gives it back', async () => {
    await go(page, addressOf('second', 'versions'));
    await page.getByRole('button', { name: 'Take snapshot' }).waitFor();
    await tab(page, 'Take snapshot');
    await page.keyboard.press('Enter');
    await focusComes(page, 'Name');
    for (let turn = 0; turn < 8; turn += 1) {
      await page.keyboard.press('Tab');
      const inside = await page.evaluate(
        () => document.activeElement === document.body || document.activeElement.closest('dialog') !== null,
      );
      assert.ok(inside, 'the focus has left the dialog');
    }
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await focusComes(page, 'Take snapshot');
  });

  await step('what takes the place of a button has its focus', async () => {
    await go(page, addressOf('second'));
    await page.getByRole('button', { name: 'Pause uploads of second' }).waitFor();
    await tab(page, 'Pause uploads of second');
    for (const name of ['Resume uploads of second', 'Pause uploads of second']) {
      await page.keyboard.press('Enter');
      await focusComes(page, name);
    }
    await go(page, '#/settings');
    await page.getByRole('button', { name: 'For an hour' }).waitFor();
    await tab(page, 'For an hour');
    for (const name of ['Resume now', 'For an hour']) {
      await page.keyboard.press('Enter');
      await focusComes(page, name);
    }
  });

  await step('further actions of a place are reached, and the focus comes back', async () => {
    await go(page, '#/');
    const more = page.getByRole('button', { name: 'More actions for second' });
    await more.focus();
    await page.keyboard.press('Enter');
    // What comes first depends on whether something waits for upload.
    await focusComes(page, /^(Upload|Pause uploads).* second/);
    await page.keyboard.press('ArrowUp');
    await focusComes(page, 'Details of second');
    await page.keyboard.press('Escape');
    await focusComes(page, 'More actions for second');
    await page.keyboard.press('ArrowUp');
    await focusComes(page, 'Details of second');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: 'second' }).waitFor();
    await focusComes(page, 'second');
    // A person who goes through the tabs stays there.
    await tab(page, 'Files');
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => document.title.startsWith('second, Files'));
    await focusComes(page, 'Files');
  });

  await step('what goes on behind a question that was left tells when it fails', async () => {
    const failure = {
      code: 'offline',
      message: 'The store went away.',
      consequence: 'No snapshot was taken.',
      action: '',
    };
    const asked = '**/v1/drives/second/snapshots';
    let fail;
    const failed = new Promise((done) => (fail = done));
    await page.route(asked, async (route) => {
      if (route.request().method() !== 'POST') return route.fallback();
      await failed;
      return route.fulfill({ status: 503, json: failure });
    });
    await go(page, addressOf('second', 'versions'));
    await page.getByRole('button', { name: 'Take snapshot' }).waitFor();
    await tab(page, 'Take snapshot');
    await page.keyboard.press('Enter');
    await focusComes(page, 'Name');
    await page.keyboard.press('Enter');
    await tab(page, 'Continue in background', 'Shift+Tab');
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await focusComes(page, 'Take snapshot');
    fail();
    await page.getByRole('alert').filter({ hasText: 'No snapshot was taken.' }).waitFor();
    await accessible(page, 'a failure behind the page');
    await page.getByRole('alert').getByRole('button', { name: 'Close' }).click();
    await page.getByRole('alert').waitFor({ state: 'detached' });
    await page.unroute(asked);
  });

  await step('every button and link of every screen is reached', async () => {
    let reached = 0;
    for (const hash of [
      '#/',
      addressOf('work'),
      addressOf('work', 'files'),
      addressOf('work', 'versions'),
      addressOf('work', 'storage'),
      addressOf('work', 'settings'),
      '#/activity',
      '#/settings',
      '#/help',
      '#/add',
      '#/add/drive',
      '#/add-folder',
    ]) {
      await go(page, hash);
      // The screen has loaded its first data.
      await page.waitForTimeout(800);
      const all = await page.evaluate(
        () =>
          [...document.querySelectorAll('a[href], button, input, select, summary')].filter(
            (one) =>
              !one.disabled &&
              one.getClientRects().length > 0 &&
              !one.matches('[tabindex="-1"]') &&
              one.type !== 'radio',
          ).length,
      );
      // Once around: it begins at the current focus, and passes the browser's own frame.
      for (let turn = 0; turn < all + 20; turn += 1) {
        await page.keyboard.press('Tab');
        await page.evaluate(() => {
          document.activeElement.dataset.reached = '1';
        });
      }
      const missed = await page.evaluate(() =>
        [...document.querySelectorAll('a[href], button, input, select, summary')]
          .filter(
            (one) =>
              !one.disabled &&
              one.getClientRects().length > 0 &&
              !one.matches('[tabindex="-1"]') &&
              one.type !== 'radio' &&
              !one.dataset.reached,
          )
          .map((one) => one.outerHTML.slice(0, 120)),
      );
      assert.deepEqual(missed, [], hash);
      reached += all;
    }
    return `${reached} of them`;
  });
}
