// The desktop app with a real daemon and a real drive: its window and its tray icon, and how both come and go.
//
//     node tests/app/desktop.mjs
//
// Needs holdall, holdalld, holdall-app and examples/panel in $HOLDALL_BIN (target/debug), and root's rights for attaching. The picture
// goes to $HOLDALL_SCREENS.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { access, mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Machine, run } from './machine.mjs';
import { making, screens as everyScreen } from './making.mjs';
import { Session } from './session.mjs';
import { addressOf, step, until } from './steps.mjs';
import { save } from './story.mjs';
import { launch } from './webdriver.mjs';

const programs = process.env.HOLDALL_BIN ?? new URL('../../target/debug', import.meta.url).pathname;
const app = join(programs, 'holdall-app');
const MB = 1024 * 1024;

const exists = (path) =>
  access(path).then(
    () => true,
    () => false,
  );

/** Starts the app as a launcher does. Returns how it ends. */
function start(env, ...args) {
  const child = spawn(app, args, { env, stdio: ['ignore', 'inherit', 'inherit'] });
  given.add({ end: async () => child.kill() });
  return new Promise((done, fail) => {
    child.on('error', fail);
    child.on('close', (code) => done(code));
  });
}

/** The app cannot start, and says why in its own window. */
async function refused({ dir, session }) {
  await step('an app that cannot begin says so in a window', async () => {
    await writeFile(join(dir, 'note'), '');
    for (const [variables, why] of [
      [{ HOLDALL_STATE_DIR: 'here' }, /HOLDALL_STATE_DIR is here, which is not an absolute path/],
      [{ HOLDALL_RUNTIME_DIR: join(dir, 'note/run') }, /Cannot use .*note\/run: Not a directory/i],
    ]) {
      const ended = run(app, [], { env: { ...session.env, ...variables } });
      await session.shown('Holdall cannot start');
      await session.close('Holdall cannot start');
      const { code, err } = await ended;
      assert.equal(code, 1);
      assert.match(err, why);
      assert.match(err, /Nothing was changed: your files are safe, and so are changes that are not uploaded yet\./);
    }
    const { code, err } = await run(app, [], { env: { ...session.env, DISPLAY: ':9999' } });
    assert.equal(code, 1);
    assert.match(err, /There is no screen here\. .* `holdall web`/);
  });

  await step('a service that cannot be started is told at once, with what to do', async () => {
    const c = new Machine(dir, 'c');
    given.add(c);
    await mkdir(c.env.HOLDALL_STATE_DIR, { recursive: true, mode: 0o700 });
    await writeFile(join(c.env.HOLDALL_STATE_DIR, 'device.json'), 'nonsense');
    const page = await launch(app, { ...session.env, ...own(c) });
    given.add(page);
    await page.says('The background service could not be started');
    assert.match(await page.text(), /The background service did not start: it exited with 1\. It said: holdalld: /);
    assert.match(await page.text(), /device\.json is damaged \(.*\)\. Restore it from a backup, or delete it:/);
    assert.match(await page.text(), /Fix the cause, then start it again\. Its log is .*daemon\.log/);
    await page.accessible('a service that cannot be started');
    await page.click('Close');
    await rm(join(c.env.HOLDALL_STATE_DIR, 'device.json'));
    await page.click('Start');
    await page.says('No drives yet');
    await page.accessible('Drives, empty');
    await page.end();
  });
}

/** The environment that makes a computer another one. */
const own = ({ env }) => Object.fromEntries(Object.entries(env).filter(([name]) => name.startsWith('HOLDALL_')));

async function window({ a, session, page, store, screens }) {
  await step('it starts the daemon, and says so in no other way than by working', async () => {
    await page.says('No drives yet');
    assert.ok(await exists(join(a.env.HOLDALL_RUNTIME_DIR, 'daemon.sock')));
  });

  await step('it shows a drive that was made elsewhere', async () => {
    await a.ok('drive', 'create', 'work', '--store', store, '--size', '512M', '--no-encryption');
    await a.ok('drive', 'open', 'work', '--at', a.mnt);
    await save(join(a.mnt, 'notes.txt'), randomBytes(MB));
    await page.says('Open in Files');
    await a.ok('drive', 'sync', 'work');
    await page.says('All changes uploaded');
    await writeFile(join(screens, 'desktop.png'), await page.picture());
  });

  await step('its pages can do nothing but what the shell offers', async () => {
    const refused = async (what) => assert.match(String(await page.promised(what)), /^refused: /, what);
    await refused("__TAURI__.core.invoke('plugin:window|close')");
    await refused("__TAURI__.core.invoke('plugin:event|listen', { event: 'x', target: { kind: 'Any' }, handler: 1 })");
    await refused("__TAURI__.core.invoke('plugin:path|resolve_directory', { directory: 1 })");
    const open = (path) => `__TAURI__.core.invoke('open_directory', ${JSON.stringify({ path })}).then(() => 'opened')`;
    for (const path of ['/etc', `${a.mnt}/..`, `${a.mnt}/notes.txt`]) {
      assert.match(String(await page.promised(`${open(path)}.catch((why) => why.code)`)), /^not_found$/, path);
    }
    const outside = "__TAURI__.core.invoke('call', { id: 9, method: 'GET', path: 'http://127.0.0.1/v1/x', progress: ";
    await refused(`${outside} new __TAURI__.core.Channel() }).catch((why) => { throw new Error(why.code) })`);
    await refused("eval('1')");
    await refused("fetch('https://example.org/')");
    assert.equal(await session.opened(), '');
  });

  await step('a folder opens, and a text is saved where downloads go', async () => {
    await page.click('Open in Files: work');
    await until('the file manager was asked', async () => (await session.opened()) === `${a.mnt}\n`);
    const saved = await page.promised("__TAURI__.core.invoke('save_text', { name: 'a.txt', text: 'b' })");
    assert.equal(saved, join(a.dir, 'Downloads/a.txt'));
    assert.equal(await readFile(saved, 'utf8'), 'b');
  });

  await step('however much it is told, it arrives', async () => {
    // So many drives make a message larger than Tauri sends at once, and so is the document.
    const others = Array.from({ length: 12 }, (_, index) => `spare-${index + 1}`);
    for (const name of others) {
      await a.ok('drive', 'create', name, '--store', `${store}-${name}`, '--size', '64M', '--no-encryption');
    }
    await page.says('13 of 13');
    const length = "__TAURI__.core.invoke('call', { id: 11, method: 'GET', path: '/v1/drives', progress: ";
    assert.equal(await page.promised(`${length} new __TAURI__.core.Channel() }).then((all) => all.length)`), 13);
    const document = await page.promised(
      `__TAURI__.core.invoke('call', { id: 10, method: 'GET', path: '/v1/openapi.json',
         progress: new __TAURI__.core.Channel() }).then((it) => it.openapi)`,
    );
    assert.match(document, /^3\./);
    for (const name of others) await a.ok('drive', 'remove', name, '--yes');
    await until('they are gone', async () => !(await page.text()).includes('spare'));
  });
}

async function tray({ a, session, page, panel }) {
  let safe;

  await step('the icon in the tray has a menu with everything', async () => {
    await panel.has('work: Ready');
    await panel.has('All changes uploaded');
    safe = await panel.tell('icon');
    assert.equal(safe.id, 'holdall');
    assert.equal(safe.status, 'Active');
    const labels = await panel.labels();
    for (const label of ['Pause all', 'Show drives', 'Settings', 'Quit']) {
      assert.ok(labels.includes(label), `${label} in ${labels}`);
    }
    return labels.filter((label) => label !== '').join(', ');
  });

  await step('what is chosen there is done', async () => {
    await panel.click('Settings');
    await until('settings are shown', async () => (await page.hash()) === '#/settings');
    await panel.click('work: Ready/Details');
    await until('the drive is shown', async () => (await page.hash()) === addressOf('work'));
    await panel.click('work: Ready/Open folder');
    await until('the file manager was asked', async () => (await session.opened()) === `${a.mnt}\n`.repeat(2));
    await panel.click('work: Ready/Pause');
    await until('it is paused', async () => (await a.status('work')).paused);
  });

  await step('it says what is only here, by its look too', async () => {
    await save(join(a.mnt, 'film.bin'), randomBytes(3 * MB));
    await panel.has(/^Paused by you, .* MiB waiting$/);
    const waiting = await panel.tell('icon');
    assert.notEqual(waiting.pixels, safe.pixels);
    await page.says('MiB waiting');
  });

  await step('what waits is uploaded at once, if that is chosen there', async () => {
    await panel.click('work: Paused/Resume');
    await until('it goes on', async () => !(await a.status('work')).paused);
    await a.ok('drive', 'sync', 'work');
    // The upload would start by itself after half a minute, which proves nothing: on a slow computer it is tried again.
    await until('it was not waited for', async () => {
      await save(join(a.mnt, 'song.bin'), randomBytes(MB));
      const saved = Date.now();
      await panel.click('work: Ready/Upload now');
      await until('nothing waits', async () => (await a.status('work')).unpushed_bytes === 0);
      return Date.now() - saved < 20_000;
    });
    await panel.has('All changes uploaded');
  });

  await step('a drive is closed and opened there, and all are paused and go on', async () => {
    await panel.click('work: Ready/Close drive');
    await panel.has('work: Closed');
    await panel.click('work: Closed/Open drive');
    await panel.has('work: Ready');
    assert.equal((await a.status('work')).mountpoint, a.mnt, 'where it was');
    await panel.click('Pause all/For an hour');
    await until('all are paused', async () => (await a.ok('limits')).paused_until);
    await panel.click('Resume all');
    await until('nothing is paused', async () => (await a.ok('limits')).paused_until === null);
    await panel.has('work: Ready');
    // The rest needs pending changes.
    await panel.click('work: Ready/Pause');
    await save(join(a.mnt, 'film.bin'), randomBytes(3 * MB));
    await panel.has(/^Paused by you, .* MiB waiting$/);
    // Changes that exist only here need a confirmation.
    await panel.click('work: Paused/Close drive');
    await page.says('Close work?');
    await page.says('exist only on this computer');
    await page.click('Cancel');
    assert.equal((await a.status('work')).mountpoint, a.mnt, 'closed without a word');
  });

  await step('it starts with the desktop, if that is wanted', async () => {
    const entry = join(a.dir, '.config/autostart/holdall.desktop');
    await panel.click('Settings');
    await page.click('Start Holdall when I log in');
    await until('the entry is there', () => exists(entry));
    assert.match(await readFile(entry, 'utf8'), /^Exec=".*\/holdall-app" --background$/m);
    await page.click('Start Holdall when I log in');
    await until('the entry is gone', async () => !(await exists(entry)));
    assert.deepEqual(await readdir(join(a.dir, '.config/autostart')), []);
  });

  await step('it is told which notifications are wanted', async () => {
    const kept = join(a.dir, '.config/holdall/app.json');
    await page.click('a store cannot be reached');
    await until('the choice is kept', () => exists(kept));
    assert.deepEqual(JSON.parse(await readFile(kept, 'utf8')), { silent: ['network'] });
    await page.click('a store cannot be reached');
    await until('it is taken back', async () => JSON.parse(await readFile(kept, 'utf8')).silent.length === 0);
  });

  await step('closing the window leaves the icon, which brings it back; so does starting the app again', async () => {
    await session.shown();
    await session.close();
    await session.hidden();
    // While it is hidden, the page listens to nothing.
    await until('the page is hidden', () => page.evaluate("return document.visibilityState === 'hidden'"));
    assert.equal(await panel.tell('activate'), 'ok');
    await session.shown();
    await session.close();
    await session.hidden();
    await panel.click('Show drives');
    await session.shown();
    await session.close();
    await session.hidden();
    assert.equal(await start(session.env), 0);
    await session.shown();
    await until('the page is shown', () => page.evaluate("return document.visibilityState === 'visible'"));
  });
}

async function daemonDown({ a, page, panel }) {
  await step('a daemon that is gone is told, and started from the window or the tray', async () => {
    await panel.click('Show drives');
    await a.ok('daemon', 'stop');
    await page.says('Background service is not running');
    await panel.has('Background service is not running');
    await page.click('Start');
    await panel.has('work: Paused');
    await until('it is told no more', async () => !(await page.text()).includes('Background service is not running'));
    await a.ok('daemon', 'stop');
    await panel.click('Start background service');
    await panel.has('work: Paused');
  });
}

async function notices({ a, b, page, panel, store }) {
  await step('who takes the drive over is told once, and a click leads to the drive', async () => {
    await b.start();
    await b.ok('drive', 'add', 'work', '--store', store);
    await b.ok('drive', 'open', 'work', '--at', b.mnt, '--take-over', '--yes');
    await b.ok('drive', 'close', 'work', '--wait');
    await panel.click('work: Paused/Resume');
    await until('it goes on', async () => !(await a.status('work')).paused);
    const { out, err } = await a.holdall('drive', 'sync', 'work');
    assert.match(out + err, /conflict/);
    await panel.has('1 drive needs attention');
    const [notice] = await until('a notice', async () => {
      const all = await panel.tell('notices');
      return all.length > 0 && all;
    });
    assert.match(notice.title, /work/);
    assert.match(notice.body, /has taken over the drive/);
    assert.equal((await panel.tell('icon')).status, 'NeedsAttention');
    await panel.click('Settings');
    await until('settings are shown', async () => (await page.hash()) === '#/settings');
    await panel.tell(`press ${notice.id}`);
    await until('the drive is shown', async () => (await page.hash()) === addressOf('work'));
    assert.ok(!(await page.text()).includes('holdall drive forks'), 'a window needs no command');
    assert.equal((await panel.tell('notices')).length, 1);
    return notice.title;
  });
}

/** Saves something, without its upload. */
async function unsent({ a }) {
  await a.ok('drive', 'pause', 'work');
  await save(join((await a.status('work')).mountpoint, 'more.bin'), randomBytes(2 * MB));
  await until('something waits', async () => (await a.status('work')).unpushed_bytes > 0);
}

async function quitting({ a, page, panel }) {
  await step('quitting says what is only here, and that the daemon goes on', async () => {
    await unsent({ a });
    await panel.has(/waiting|attention/);
    await page.evaluate("location.hash = '#/'");
    await page.says('only on this computer');
    await panel.click('Quit');
    await page.says('Quit Holdall?');
    assert.match(
      await page.text(),
      /MiB exist only on this computer, and uploads are on hold\. The background service keeps running/,
    );
    await page.click('Keep running');
    await until('the question is gone', async () => !(await page.text()).includes('Quit Holdall?'));
    const { daemon_pid: before } = await a.status('work');
    await panel.click('Quit');
    await page.click('Quit anyway').catch(() => undefined);
    await until('the icon is gone', async () => (await panel.tell('icon')).error !== undefined);
    assert.equal((await a.status('work')).daemon_pid, before);
  });
}

async function without({ a, session, panel }) {
  await step('without a tray, closing the window ends the app, after it has said what is only here', async () => {
    await panel.tell('go');
    const page = await launch(app, session.env);
    given.add(page);
    await page.says('only on this computer');
    await session.close();
    await page.says('Quit Holdall?');
    await session.shown();
    await page.click('Quit anyway').catch(() => undefined);
    await session.hidden();
    await page.end();
    await a.ok('drive', 'resume', 'work');
    // It is a fork now, which counts as a failure.
    await a.holdall('drive', 'sync', 'work');
    await until('nothing waits', async () => (await a.status('work')).unpushed_bytes === 0);
    const ended = start(session.env);
    await session.shown();
    await session.close();
    assert.equal(await ended, 0);
  });
}

async function background({ session, panel }) {
  await step('it begins in the tray when the desktop starts it, also where the tray comes later', async () => {
    const ended = start(session.env, '--background');
    await panel.tell('come');
    await panel.has('Show drives');
    assert.equal(await session.isShown(), false);
    assert.equal(await start(session.env, '--background'), 0);
    assert.equal(await session.isShown(), false);
    assert.equal(await start(session.env), 0);
    await session.shown();
    await session.close();
    await session.hidden();
    assert.equal(await panel.quit(ended), 0);
  });
}

const given = new Set();
const giveBack = async () => {
  for (const one of [...given].reverse()) await one.end().catch((error) => console.error(error));
};
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => void giveBack().then(() => process.exit(1)));

const dir = await mkdtemp(join(tmpdir(), 'holdall-desktop-'));
const [a, b] = [new Machine(dir, 'a'), new Machine(dir, 'b')];
const session = new Session(dir, a.env);
given.add({ end: async () => session.end() });
given.add(a).add(b);
let page;
try {
  for (const part of ['a/.config', 'a/mnt', 'b', 'store', 'screens']) await mkdir(join(dir, part), { recursive: true });
  await writeFile(join(dir, 'a/.config/user-dirs.dirs'), 'XDG_DOWNLOAD_DIR="$HOME/Downloads"\n');
  await session.start();
  const panel = await session.panel(programs);
  assert.equal(await panel.tell('come'), 'ok');
  await refused({ dir, session });
  page = await launch(app, session.env);
  given.add(page);
  const screens = process.env.HOLDALL_SCREENS ?? join(dir, 'screens');
  const all = { a, b, dir, session, panel, page, store: `file://${dir}/store`, screens };
  await window(all);
  await everyScreen(all);
  await making(all);
  await tray(all);
  await daemonDown(all);
  await notices(all);
  await quitting(all);
  await page.end();
  page = undefined;
  await without(all);
  await background(all);
} catch (error) {
  process.exitCode = 1;
  const picture = join(tmpdir(), 'holdall-desktop-failed.png');
  console.log(`\n${error.stack}\nThe page then: ${picture}\n${await page?.text().catch(() => 'none')}`);
  await Promise.resolve(page?.picture().then((png) => writeFile(picture, png))).catch(() => undefined);
  console.log(`The daemon's log ends:\n${(await a.log()).split('\n').slice(-25).join('\n')}`);
} finally {
  await giveBack();
  const mounts = await readFile('/proc/mounts', 'utf8');
  if (!mounts.includes(dir)) await rm(dir, { recursive: true, force: true });
  else console.error(`${dir} has mounts left`);
}
