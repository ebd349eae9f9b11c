// A computer: its own directories, and so its own daemon. Everything that it has mounted is unmounted at the end.

import { spawn } from 'node:child_process';
import { mkdir, readFile, readdir } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { join } from 'node:path';

const bin = (name) => join(process.env.HOLDALL_BIN ?? new URL('../../target/debug', import.meta.url).pathname, name);

/** Runs a program to its end. */
export function run(program, args, { env = process.env, input } = {}) {
  return new Promise((done, fail) => {
    const child = spawn(program, args, {
      env,
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    let [out, err] = ['', ''];
    child.stdout.on('data', (text) => (out += text));
    child.stderr.on('data', (text) => (err += text));
    child.on('error', fail);
    child.on('close', (code) => done({ code, out, err }));
    // It may have ended before it has read anything.
    child.stdin.on('error', () => undefined);
    child.stdin.end(input ?? '');
  });
}

export class Machine {
  constructor(parent, name) {
    this.dir = join(parent, name);
    this.mnt = join(this.dir, 'mnt');
    this.env = {
      ...process.env,
      HOLDALL_STATE_DIR: join(this.dir, 'state'),
      HOLDALL_CACHE_DIR: join(this.dir, 'cache'),
      HOLDALL_RUNTIME_DIR: join(this.dir, 'run'),
      // No test touches the keyring of the person who runs it.
      DBUS_SESSION_BUS_ADDRESS: 'unix:path=/nowhere',
      HOME: this.dir,
      // The pages, wherever the programs are.
      HOLDALL_WEB_DIR: new URL('../../ui/dist', import.meta.url).pathname,
    };
  }

  async start() {
    await mkdir(this.dir, { recursive: true });
    await this.ok('drive', 'list');
    return this;
  }

  /** Runs a command. */
  holdall(...args) {
    return run(bin('holdall'), [...args, '--json'], { env: this.env });
  }

  /** Runs a command that must succeed, and returns its result. */
  async ok(...args) {
    const { code, out, err } = await this.holdall(...args);
    if (code !== 0) throw new Error(`holdall ${args.join(' ')}: ${code}\n${err}${out}`);
    return out.trim() === '' ? null : JSON.parse(out);
  }

  status(name) {
    return this.ok('drive', 'status', name);
  }

  /** The address for a browser, with a token. */
  async web() {
    return (await this.ok('web')).url;
  }

  /** Kills the daemon and its keeper. Everything that they have attached and mounted stays. */
  async crash(name) {
    const pids = [(await this.status(name)).daemon_pid];
    for (const pid of await readdir('/proc')) {
      const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
      if (command.includes(`keep\0${this.env.HOLDALL_RUNTIME_DIR}/keeper.sock`)) pids.push(Number(pid));
    }
    if (pids.length !== 2) throw new Error(`a daemon and a keeper: ${pids}`);
    for (const pid of pids) process.kill(pid, 'SIGKILL');
    while (pids.some((pid) => existsSync(`/proc/${pid}`))) await new Promise((done) => setTimeout(done, 20));
  }

  async log() {
    return readFile(join(this.env.HOLDALL_STATE_DIR, 'daemon.log'), 'utf8').catch(() => '');
  }

  /** Closes everything that is open, and ends the daemon, even after a failed test. */
  async end() {
    const list = await this.ok('drive', 'list').catch(() => []);
    for (const { name } of list ?? []) await this.holdall('drive', 'close', name);
    await this.holdall('daemon', 'stop');
    await this.holdall('doctor', '--repair');
    await this.holdall('daemon', 'stop');
  }
}
