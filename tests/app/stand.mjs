// The S3 server and the proxy in front of it: `tests/servers/examples/stand.rs`.

import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

export async function stand() {
  const bin = process.env.HOLDALL_BIN ?? new URL('../../target/debug', import.meta.url).pathname;
  const child = spawn(join(bin, 'examples/stand'), {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  // It says itself why it has ended.
  child.stdin.on('error', () => undefined);
  const heard = createInterface(child.stdout)[Symbol.asyncIterator]();
  const line = async () => {
    const { value, done } = await heard.next();
    if (done) throw new Error('the servers ended');
    return value;
  };
  const tell = async (word) => {
    child.stdin.write(`${word}\n`);
    return line();
  };
  return {
    ...JSON.parse(await line()),
    cut: () => tell('cut'),
    restore: () => tell('restore'),
    /** Also starts a WebDAV server: its address, and its user and password. */
    dav: async () => JSON.parse(await tell('dav')),
    end: () =>
      new Promise((done) => {
        child.on('close', done);
        child.stdin.end();
      }),
  };
}
