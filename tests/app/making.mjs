// Creating a drive in the app's window, and every screen of the window, usable for everybody.

import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { addressOf, step, until } from './steps.mjs';

const PASSPHRASE = 'tangerine paperclip';

const groupsOf = (page) =>
  page.evaluate("return [...document.querySelectorAll('ol.groups code')].map((one) => one.textContent)");

export async function making({ a, dir, page, panel }) {
  await step('whoever quits before a recovery key is written down is asked', async () => {
    await mkdir(join(dir, 'disk'));
    await page.go('#/add/drive');
    await page.click('Disk or folder');
    await page.click('Continue');
    await page.type('Folder', join(dir, 'disk'));
    await page.click('Test connection');
    await page.says('How this was tested');
    await page.accessible('wizard, tested');
    await page.click('Continue');
    await page.type('Name', 'vault');
    await page.type('Size', '64 MiB');
    await page.click('Continue');
    await page.type('Passphrase', PASSPHRASE);
    await page.type('Repeat passphrase', PASSPHRASE);
    await page.click('Continue');
    await page.type('Mount at', join(a.dir, 'vault'));
    await page.click('Continue');
    await page.click('Create and open drive');
    await page.says('Write down the recovery key');
    await page.accessible('wizard, recovery key');
    const groups = await groupsOf(page);
    assert.ok(groups.length >= 6, groups.join());

    await panel.click('Quit');
    await page.says('Quit Holdall?');
    assert.match(await page.text(), /The recovery key of vault is not written down yet, and is never shown again\./);
    await page.accessible('Quit, with a recovery key');
    await page.click('Keep running');
    await until('the question is gone', async () => !(await page.text()).includes('Quit Holdall?'));
    assert.deepEqual(await groupsOf(page), groups);

    // Elsewhere in the window it can be lost just as easily.
    await page.evaluate("location.hash = '#/'");
    await page.click('Leave without the key');
    await panel.click('Quit');
    await page.says('The recovery key of vault is not written down yet');
    await page.click('Keep running');
    await page.go('#/add/drive');
    await page.click('I have written it down');
    for (const label of await page.evaluate(
      "return [...document.querySelectorAll('.pair label')].map((one) => one.textContent)",
    )) {
      await page.type(label.trim(), groups[Number(label.replace(/\D/g, '')) - 1]);
    }
    await page.click('Continue');
    await page.says('vault is ready');
    assert.equal((await a.status('vault')).mountpoint, join(a.dir, 'vault'));
    await a.ok('drive', 'close', 'vault', '--wait');
    await a.ok('drive', 'remove', 'vault', '--yes');
  });
}

export async function screens({ page }) {
  await step('every screen of the window is there for everybody', async () => {
    const tabs = ['overview', 'files', 'versions', 'storage', 'settings'].map((tab) => addressOf('work', tab));
    const all = ['#/', ...tabs, '#/activity', '#/settings', '#/help', '#/add', '#/add/drive', '#/add-folder'];
    for (const hash of all) {
      await page.go(hash);
      // The screen has loaded its first data.
      await new Promise((done) => setTimeout(done, 800));
      await page.accessible(hash);
    }
    await page.go('#/');
    return `${all.length} of them`;
  });
}
