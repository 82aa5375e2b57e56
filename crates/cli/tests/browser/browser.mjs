// A browser that notices what a page must not do.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Every way in which a page is looked at. */
export const LOOKS = [
  ['desktop', 1440, 900],
  ['phone', 390, 844],
].flatMap(([device, width, height]) =>
  ['light', 'dark'].map((colorScheme) => ({ name: `${device}, ${colorScheme}`, device, viewport: { width, height }, colorScheme })),
);

export function launch() {
  // Chromium has no sandbox for root, as which containers often run.
  const args = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args });
}

/** Opens a page; `wrong` fills with whatever it does that it must not. */
export async function open(browser, path, look = LOOKS[0]) {
  const context = await browser.newContext({ viewport: look.viewport, colorScheme: look.colorScheme, timezoneId: 'UTC', locale: 'en' });
  const page = await context.newPage();
  const address = pathToFileURL(path).href;
  const wrong = [];
  page.on('console', (message) => wrong.push(`console: ${message.text()}`));
  page.on('pageerror', (error) => wrong.push(`error: ${error.message}`));
  page.on('dialog', (dialog) => wrong.push(`dialog: ${dialog.message()}`));
  page.on('popup', (popup) => wrong.push(`window: ${popup.url()}`));
  page.on('request', (request) => {
    const url = request.url();
    if (url.split('#')[0] !== address && !url.startsWith('data:')) wrong.push(`request: ${url}`);
  });
  await page.goto(address);
  return { page, wrong };
}

/** Nothing went wrong, and nothing that was stored took effect. */
export async function assertHarmless({ page, wrong }) {
  assert.deepEqual(wrong, []);
  assert.equal(await page.evaluate(() => window.broken), undefined);
  const isWide = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
  assert.equal(isWide, false, 'the page is wider than its window');
}

/** What axe finds that keeps people from using the page. */
export async function assertAccessible(page) {
  // Motion would have it judge colours that are half there.
  await page.evaluate(() => Promise.all(document.getAnimations().map((animation) => animation.finished)));
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  const told = violations.map(
    ({ id, help, nodes }) =>
      `${id}: ${help}: ${nodes
        .slice(0, 3)
        .map((node) => node.html.slice(0, 200))
        .join(' | ')}`,
  );
  assert.deepEqual(told, []);
}
