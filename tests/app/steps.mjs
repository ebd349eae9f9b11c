// Shared by all parts of the test: steps with names, waiting, and the requirements for each screen.

import assert from 'node:assert/strict';
import { appendFileSync, readFileSync } from 'node:fs';
import { AXE } from './browser.mjs';

export const AXE_SCRIPT = readFileSync(AXE, 'utf8');
/** Far longer than anything here takes. Anything unfinished by then hangs. */
export const PATIENCE_MS = Number(process.env.HOLDALL_PATIENCE_MS ?? 90_000);

/** Records a secret that the product gets or gives. The run of all tests searches its output for it. */
export function given(secret) {
  const noted = process.env.HOLDALL_TESTS_SECRETS;
  const bytes = Buffer.from(secret);
  const forms = [secret, bytes.toString('hex'), bytes.toString('base64').slice(0, Math.floor(bytes.length / 3) * 4)];
  if (noted) appendFileSync(noted, [...forms, encodeURIComponent(secret), [...bytes].join(', '), ''].join('\n'));
  return secret;
}

/** Waits until `look` succeeds, and returns its result. */
export async function until(what, look) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > end) throw new Error(`waited in vain: ${what}`);
    await new Promise((done) => setTimeout(done, 100));
  }
}

/** A page in that look. It must not write to its console, and must not do anything that its policy forbids. */
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
    // The browser also reports refused requests and broken networks.
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

/** The address of a tab of a drive or folder. */
export const addressOf = (name, tab = 'overview') => `#/place/${encodeURIComponent(name)}/${tab}`;

/** The row of a drive or folder on the first screen. */
export const row = (page, name) =>
  page
    .getByRole('main')
    .getByRole('listitem')
    .filter({ has: page.getByRole('link', { name, exact: true }) });

/** Chooses a further action of a row. */
export async function choose(page, name, action) {
  await row(page, name)
    .getByRole('button', { name: `More actions for ${name}` })
    .click();
  await page.getByRole('menuitem', { name: action }).click();
}

/** No serious violation on this screen, in its current state. */
export async function accessible(page, where) {
  await page.evaluate(AXE_SCRIPT);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  judge(violations, where);
  assert.deepEqual(page.errors, [], where);
  return violations.length;
}

/** Nothing that axe has found is serious. */
export function judge(violations, where) {
  const told = violations.map(
    ({ id, impact, nodes }) => `${impact}: ${id}: ${nodes.map((node) => node.html).join(' | ')}`,
  );
  const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  assert.equal(serious.length, 0, `${where}:\n${told.join('\n')}`);
}

/** The widths of a phone, and of the smallest one still in use. */
const NARROW = [390, 320];

/** In a narrow window nothing extends beyond the sides, and no button cuts off its text. */
export async function narrow(page, where) {
  const usual = page.viewportSize();
  for (const width of NARROW) {
    await page.setViewportSize({ width, height: 844 });
    assert.deepEqual(await page.evaluate(beyond), [], `${where}: wider than a window of ${width} pixels`);
  }
  await page.setViewportSize(usual);
}

/** Elements wider than the window, and buttons narrower than their text. Runs in the page. */
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

/** The fields marked as invalid, by name. Each must say what it expects. */
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
