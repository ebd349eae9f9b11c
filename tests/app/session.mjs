// A separate desktop session: an invisible screen, a window manager, a bus, and a panel with a tray.

import { spawn } from 'node:child_process';
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { run } from './machine.mjs';
import { until } from './steps.mjs';

const firstLine = async (stream) => {
  for await (const line of createInterface(stream)) return line;
  throw new Error('it ended');
};

export class Session {
  #children = [];

  constructor(dir, env) {
    this.dir = dir;
    this.env = { ...env, NO_AT_BRIDGE: '1', GTK_A11Y: 'none' };
    for (const name of Object.keys(this.env)) {
      if (name.startsWith('XDG_') || name === 'WAYLAND_DISPLAY') delete this.env[name];
    }
  }

  async start() {
    await mkdir(join(this.dir, 'bin'), { recursive: true });
    const screen = this.#spawn('Xvfb', ['-displayfd', '3', '-screen', '0', '1280x900x24', '-nolisten', 'tcp'], 3);
    this.env.DISPLAY = `:${await firstLine(screen.stdio[3])}`;
    const address = `--address=unix:path=${join(this.dir, 'bus')}`;
    const bus = this.#spawn('dbus-daemon', ['--session', '--nofork', '--print-address=3', address], 3);
    this.env.DBUS_SESSION_BUS_ADDRESS = await firstLine(bus.stdio[3]);
    this.#spawn('openbox', ['--sm-disable']);
    await until('a window manager', async () => (await this.#windowManager('-m')).code === 0);
    // A file manager, as far as other programs can tell.
    const opener = join(this.dir, 'bin/xdg-open');
    await writeFile(opener, `#!/bin/sh\necho "$1" >>${this.dir}/opened\n`);
    await chmod(opener, 0o755);
    this.env.PATH = `${join(this.dir, 'bin')}:${this.env.PATH}`;
    return this;
  }

  /** The paths opened in the file manager. */
  opened() {
    return readFile(join(this.dir, 'opened'), 'utf8').catch(() => '');
  }

  #spawn(program, args, descriptor) {
    const stdio = ['ignore', 'ignore', 'ignore'];
    if (descriptor) stdio[descriptor] = 'pipe';
    const child = spawn(program, args, { env: this.env, stdio });
    this.#children.push(child);
    return child;
  }

  #windowManager(...args) {
    return run('wmctrl', args, { env: this.env });
  }

  /** Whether a window with this title is on the screen; by default the app's. */
  async isShown(title = 'Holdall') {
    const { out } = await this.#windowManager('-l');
    return out.split('\n').some((line) => line.endsWith(` ${title}`));
  }

  shown(title = 'Holdall') {
    return until(`${title} is shown`, () => this.isShown(title));
  }

  hidden() {
    return until('the window is hidden', async () => !(await this.isShown()));
  }

  /** Closes the window with its frame's button. */
  async close(title = 'Holdall') {
    const { code, err } = await this.#windowManager('-c', title);
    if (code !== 0) throw new Error(err);
  }

  /** The panel `src-tauri/examples/panel.rs`, whose source lists its commands. */
  async panel(programs) {
    const child = spawn(join(programs, 'examples/panel'), { env: this.env, stdio: ['pipe', 'pipe', 'inherit'] });
    this.#children.push(child);
    child.stdin.on('error', () => undefined);
    const heard = createInterface(child.stdout)[Symbol.asyncIterator]();
    const line = async () => {
      const { value, done } = await heard.next();
      if (done) throw new Error('the panel ended');
      return JSON.parse(value);
    };
    await line();
    const tell = async (command) => {
      child.stdin.write(`${command}\n`);
      return line();
    };
    const labels = async () => ((await tell('menu')).entries ?? []).map(({ label }) => label);
    return {
      tell,
      labels,
      /** Waits until the menu has such an entry, and returns it. */
      has: (label) =>
        until(`the menu has ${label}`, async () => (await labels()).find((one) => one === label || one.match?.(label))),
      click: (path) => until(`${path} is chosen`, async () => (await tell(`click ${path}`)) === 'ok'),
      /** Quits an app, which must end with this code. It may be gone before it has answered. */
      async quit(ended) {
        let code;
        void ended.then((is) => (code = is));
        await until('Quit is chosen', async () => code !== undefined || (await tell('click Quit')) === 'ok');
        return ended;
      },
    };
  }

  end() {
    for (const child of this.#children.reverse()) child.kill();
  }
}
