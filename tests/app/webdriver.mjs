// The app's window, driven by tauri-driver with WebKit's own driver behind it (Debian's webkit2gtk-driver). They start the app, and
// send requests to its page.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { AXE_SCRIPT, judge, until } from './steps.mjs';

const ELEMENT = 'element-6066-11e4-a52e-4f735466cecf';

/** A port that is unused now. */
const freePort = () =>
  new Promise((done) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });

/** Starts the app, and waits for its page. */
export async function launch(app, env) {
  const [port, nativePort] = [await freePort(), await freePort()];
  const driver = spawn('tauri-driver', ['--port', port, '--native-port', nativePort], {
    env,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const failed = new Promise((_, fail) => driver.on('error', fail));
  const ask = async (method, path, body) => {
    const init = { method, headers: { 'Content-Type': 'application/json' } };
    if (body !== undefined) init.body = JSON.stringify(body);
    const response = await fetch(`http://127.0.0.1:${port}${path}`, init);
    const { value } = await response.json();
    if (!response.ok) throw new Error(`${method} ${path}: ${value.error}: ${value.message}`);
    return value;
  };
  await Promise.race([failed, until('the driver listens', () => ask('GET', '/status').catch(() => null))]);
  const options = { 'tauri:options': { application: app } };
  const { sessionId } = await ask('POST', '/session', { capabilities: { alwaysMatch: options } });
  const page = new Page((method, path, body) => ask(method, `/session/${sessionId}${path}`, body));
  page.end = async () => {
    // The app ends itself. Anything that the driver leaves would run beside the next app.
    await page.evaluate("__TAURI__.core.invoke('quit')").catch(() => undefined);
    await page.ask('DELETE', '').catch(() => undefined);
    driver.kill();
  };
  return page;
}

class Page {
  constructor(ask) {
    this.ask = ask;
  }

  /** The result of a function body in the page. */
  evaluate(script, ...args) {
    return this.ask('POST', '/execute/sync', { script, args });
  }

  /** The result of a promise in the page, or `refused: WHY`. */
  promised(expression) {
    const script = `const done = arguments[arguments.length - 1];
      Promise.resolve().then(() => ${expression}).then(done, (why) => done('refused: ' + (why?.message ?? why)));`;
    return this.ask('POST', '/execute/async', { script, args: [] });
  }

  text() {
    return this.evaluate('return document.body.innerText');
  }

  hash() {
    return this.evaluate('return location.hash');
  }

  /** Waits until the page contains this text. */
  says(text) {
    return until(`the page says ${text}`, async () => (await this.text()).includes(text));
  }

  /** Opens a screen, and waits until it is there. */
  async go(hash) {
    await this.evaluate('location.hash = arguments[0]', hash);
    await until(`there is ${hash}`, () => this.evaluate("return document.querySelector('h1') !== null"));
  }

  /** No serious violation on this screen, in its current state. */
  async accessible(where) {
    await this.evaluate(AXE_SCRIPT);
    const found = await this.promised("axe.run(document, { resultTypes: ['violations'] })");
    judge(found.violations ?? assert.fail(`${where}: ${found}`), where);
  }

  /** Types into the field with this label, replacing its text. */
  async type(label, text) {
    const script = `return [...document.querySelectorAll('input')].find(
      (one) => one.labels[0]?.textContent.trim() === arguments[0]) ?? null;`;
    const found = await until(`there is ${label}`, () => this.evaluate(script, label));
    await this.ask('POST', `/element/${found[ELEMENT]}/clear`, {});
    await this.ask('POST', `/element/${found[ELEMENT]}/value`, { text });
  }

  /** Clicks the element with this text or label, as a person does; for a choice, its name. */
  async click(name) {
    const quoted = JSON.stringify(name);
    const value = `(//dialog[@open] | //body[not(.//dialog[@open])])//*[self::button or self::a or self::label]
      [normalize-space()=${quoted} or @aria-label=${quoted} or .//strong[normalize-space()=${quoted}]]`;
    const found = await until(`there is ${name}`, () =>
      this.ask('POST', '/element', { using: 'xpath', value }).catch(() => null),
    );
    await this.ask('POST', `/element/${found[ELEMENT]}/click`, {});
  }

  /** A picture of the page, as PNG. */
  async picture() {
    return Buffer.from(await this.ask('GET', '/screenshot'), 'base64');
  }
}
