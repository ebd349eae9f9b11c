// What every part of the test uses: steps with names, waiting, and what is demanded of each screen.

import assert from 'node:assert/strict';
import { appendFileSync, readFileSync } from 'node:fs';
import { AXE } from './browser.mjs';

export const AXE_SCRIPT = readFileSync(AXE, 'utf8');
/** Far longer than anything here takes; whatever is not done by then hangs. */
export const PATIENCE_MS = Number(process.env.HOLDALL_PATIENCE_MS ?? 90_000);

/** A secret that is given to the product, or that it gives: whoever runs the tests looks for it in all that they print. */
export function given(secret) {
  const noted = process.env.HOLDALL_TESTS_SECRETS;
  const bytes = Buffer.from(secret);
  const forms = [secret, bytes.toString('hex'), bytes.toString('base64').slice(0, Math.floor(bytes.length / 3) * 4)];
  if (noted) appendFileSync(noted, [...forms, encodeURIComponent(secret), [...bytes].join(', '), ''].join('\n'));
  return secret;
}

/** Waits until it is so; what it gives. */
export async function until(what, look) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > end) throw new Error(`waited in vain: ${what}`);
    await new Promise((done) => setTimeout(done, 100));
  }
}

/** A page of that look, that may say nothing on its console and do nothing that its policy forbids. */
export async function open(browser, url, options = {}) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 860 },
    reducedMotion: 'reduce',
    ...options,
  });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  page.errors = [];
  page.on('pageerror', (error) => page.errors.push(String(error)));
  page.on('console', (said) => {
    // A request that is refused, or a network that is down, is told by the browser too.
    if (said.type() === 'error' && !/Failed to load resource|net::ERR/.test(said.text())) page.errors.push(said.text());
  });
  await page.goto(url);
  return page;
}

export const go = async (page, hash) => {
  await page.evaluate((to) => {
    location.hash = to;
  }, hash);
  await page.locator('h1').waitFor();
};

/** No serious violation on this screen, in whatever state it is. */
export async function accessible(page, where) {
  await page.evaluate(AXE_SCRIPT);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  judge(violations, where);
  assert.deepEqual(page.errors, [], where);
  return violations.length;
}

/** Of what axe has found nothing is serious. */
export function judge(violations, where) {
  const told = violations.map(
    ({ id, impact, nodes }) => `${impact}: ${id}: ${nodes.map((node) => node.html).join(' | ')}`,
  );
  const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  assert.equal(serious.length, 0, `${where}:\n${told.join('\n')}`);
}

/** Of a phone, and of the smallest one that is still in use. */
const NARROW = [390, 320];

/** In a narrow window nothing reaches beyond its sides, and no button cuts off its words. */
export async function narrow(page, where) {
  const usual = page.viewportSize();
  for (const width of NARROW) {
    await page.setViewportSize({ width, height: 844 });
    assert.deepEqual(await page.evaluate(beyond), [], `${where}: wider than a window of ${width} pixels`);
  }
  await page.setViewportSize(usual);
}

/** What is wider than the window, or a button that is narrower than its words; runs in the page. */
function beyond() {
  const { scrollWidth, clientWidth } = document.documentElement;
  const isClipped = (one) =>
    one !== document.body && (getComputedStyle(one).overflowX !== 'visible' || isClipped(one.parentElement));
  const isOutside = (one) => {
    const { left, right, width } = one.getBoundingClientRect();
    return width > 0 && (left < -1 || right > clientWidth + 1);
  };
  const all = [...document.body.querySelectorAll('*')];
  const outside = all.filter((one) => isOutside(one) && !isClipped(one.parentElement));
  const cut = all.filter((one) => one.matches('button, .button') && one.scrollWidth > one.clientWidth + 1);
  const told = [...outside, ...cut].map((one) => one.outerHTML.slice(0, 200));
  return scrollWidth > clientWidth ? [`${scrollWidth} pixels`, ...told] : told;
}

/** What is marked as making no sense, by its name; each says what it is to be. */
export const invalid = (page) =>
  page.evaluate(() =>
    [...document.querySelectorAll('[aria-invalid=true]')].map((field) => {
      const hint = document.getElementById(field.getAttribute('aria-describedby'))?.textContent;
      return `${field.labels[0].textContent}${hint ? '' : ', unsaid'}`;
    }),
  );

let begun = 0;
export async function step(name, work) {
  begun = Date.now();
  process.stdout.write(`app: ${name} ... `);
  const said = await work();
  console.log(`ok${said ? `, ${said}` : ''} (${((Date.now() - begun) / 1000).toFixed(1)} s)`);
}
