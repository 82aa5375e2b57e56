// The page of `runledger report`, used as people use it.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { LOOKS, assertAccessible, assertHarmless, launch, open } from './browser.mjs';
import { CLOSING, DEEP, HUGE, IMAGE, SCRIPT, hostile, many, report, shop } from './stores.mjs';

let browser;
let folder;
const pages = {};

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'runledger-pages-'));
  pages.hostile = report(folder, 'hostile', hostile());
  pages.shop = report(folder, 'shop', shop(400));
  browser = await launch();
});

after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true, force: true });
});

const rows = (page) => page.locator('#list tbody tr');
const ids = (page) => page.locator('#list .run a').allTextContents();
const shown = (page) => page.locator('#count').textContent();
const lane = (page, title) => page.locator('.lane', { has: page.locator('summary .title', { hasText: title }) });

for (const look of LOOKS) {
  describe(look.name, () => {
    test('a hostile store is shown and not obeyed', async () => {
      const opened = await open(browser, pages.hostile, look);
      const { page } = opened;
      assert.equal(await shown(page), '9 runs');
      assert.deepEqual((await ids(page)).slice(0, 4), ['agent-lost', SCRIPT, 'waits', '␠spaces␠']);
      await assertAccessible(page);

      await page.getByRole('link', { name: SCRIPT }).click();
      const sheet = page.getByRole('dialog');
      assert.match(await sheet.textContent(), /Lease ended 1 h ago/);
      for (const text of [SCRIPT, IMAGE, CLOSING]) assert.ok((await sheet.textContent()).includes(text), text);
      // Two node runs, the agent run of one of them, and the run itself.
      assert.equal(await page.locator('.lane').count(), 4);
      await lane(page, IMAGE).first().click();
      await lane(page, HUGE).first().click();
      const deep = await lane(page, HUGE).getByRole('group', { name: 'Input' }).textContent();
      assert.equal(deep.replace(/\s/g, ''), DEEP.replace(/\s/g, ''));
      assert.ok((await lane(page, HUGE).locator('.error').textContent()).includes('␀␛[31m & end'));
      await assertAccessible(page);
      await page.keyboard.press('Escape');
      await page.getByRole('link', { name: HUGE }).click();
      assert.match(await page.getByRole('dialog').textContent(), /the first 1.0 KiB of 4.9 KiB/);
      await assertAccessible(page);
      await assertHarmless(opened);
      await page.context().close();
    });

    test('filters, search and a timeline', async () => {
      const opened = await open(browser, pages.shop, look);
      const { page } = opened;
      assert.equal(await shown(page), '400 runs');
      await page.getByRole('button', { name: /Stuck/ }).click();
      assert.equal(await shown(page), '3 of 400 runs');
      assert.equal(await rows(page).count(), 3);
      await page.getByRole('button', { name: /Failed/ }).click();
      const both = Number((await shown(page)).split(' ')[0]);
      assert.ok(both > 3, 'kinds add up');
      await page.getByRole('button', { name: 'Clear filters' }).click();

      await page.getByRole('searchbox', { name: 'Search' }).fill('CARD  fraud-review-0');
      await page.waitForFunction(() => !document.getElementById('count').textContent.startsWith('400'));
      for (const id of await ids(page)) assert.match(id, /^fraud-review-0/);
      assert.ok((await rows(page).count()) > 0);
      await page
        .getByRole('link', { name: /^fraud-review/ })
        .first()
        .click();
      await page.locator('#sheet[open]').waitFor();
      const lanes = await page.locator('.lane.node').count();
      assert.ok(lanes >= 2 && (await page.locator('.lane.agent').count()) === 1);
      await page.locator('.lane.agent summary').click();
      await page.locator('.lane.agent .facts').waitFor();
      assert.match(await page.locator('.lane.agent').textContent(), /small-1.*Look at the order/s);
      await assertAccessible(page);
      await page.keyboard.press('Escape');
      await page.waitForFunction(() => !document.getElementById('sheet').open);
      await page.getByRole('button', { name: 'Clear filters' }).click();

      await page.getByRole('combobox', { name: 'Workflow' }).selectOption({ label: 'refund' });
      await page.getByRole('combobox', { name: 'Project' }).selectOption({ label: 'shop' });
      await page.getByRole('combobox', { name: 'Order' }).selectOption({ label: 'Longest first' });
      for (const workflow of await page.locator('#list td.workflow').allTextContents()) assert.equal(workflow, 'refund');
      await page.locator('#cards details summary').first().click();
      await page.locator('.figures tbody tr').first().waitFor();
      await assertAccessible(page);
      await assertHarmless(opened);
      await page.context().close();
    });
  });
}

test('a timeline draws what was when', async () => {
  const opened = await open(browser, pages.hostile);
  const { page } = opened;
  await page.getByRole('link', { name: SCRIPT }).click();
  const place = (of) => of.evaluate((bar) => [bar.style.left, bar.style.width].map((text) => Math.round(parseFloat(text) * 10) / 10));
  // The run began 7,200 s ago; the node ran from 6,000 s ago for 1,000 s.
  assert.deepEqual(await place(lane(page, HUGE).locator('.stretch.failed')), [16.7, 13.9]);
  assert.deepEqual(await place(page.locator('.lane.agent .stretch.queued')), [2.9, 1.3]);
  assert.deepEqual(await place(page.locator('.lane.agent .stretch.running')), [4.2, 95.8]);
  await page.context().close();
});

test('all of it can be done with the keyboard', async () => {
  const opened = await open(browser, pages.shop);
  const { page } = opened;
  const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.textContent);
  await page.keyboard.press('Tab');
  assert.equal(await focused(), 'Skip to the runs');
  await page.keyboard.press('/');
  assert.equal(await focused(), 'search');
  const [first, second] = await ids(page);
  await page.getByRole('link', { name: first }).focus();
  await page.keyboard.press('Enter');
  // The address of the page changes first, and what it says comes after.
  const isAt = (id) => page.waitForFunction((id) => document.activeElement.id === id, id);
  const isShown = (id) => page.waitForFunction((id) => document.querySelector('#sheet-title').textContent.endsWith(id), id);
  await isAt('sheet-title');
  await isShown(first);
  await page.keyboard.press('Tab');
  assert.equal(await focused(), 'next', 'there is none before the first');
  const isOpen = () =>
    page
      .locator('.lane.node details')
      .first()
      .evaluate((details) => details.open);
  for (let steps = 0; steps < 20 && !(await isOpen()); steps += 1) {
    await page.keyboard.press('Tab');
    if (await page.evaluate(() => document.activeElement.matches('.lane.node summary'))) await page.keyboard.press('Enter');
  }
  await page.locator('.lane.node .facts').first().waitFor();
  await page.locator('#next').focus();
  await page.keyboard.press('Enter');
  await isShown(second);
  await page.keyboard.press('Escape');
  await page.waitForFunction(() => !document.querySelector('#sheet').open);
  await page.waitForFunction((name) => document.activeElement.textContent === name, first);
  await assertHarmless(opened);
  await page.context().close();
});

test('an address of a run opens it, and going back closes it', async () => {
  const opened = await open(browser, pages.shop);
  const { page } = opened;
  await page.locator('#list .run a').nth(1).click();
  await page.locator('#sheet[open]').waitFor();
  const { hash } = new URL(page.url());
  assert.match(hash, /^#run-\d+$/);
  const title = await page.locator('#sheet-title').textContent();
  await page.goBack();
  await page.waitForFunction(() => !document.getElementById('sheet').open);
  await page.goto(`about:blank`);
  await page.goto(new URL(hash, `file://${pages.shop}`).href);
  await page.locator('#sheet[open]').waitFor();
  assert.equal(await page.locator('#sheet-title').textContent(), title);
  await page.context().close();
});

test('thousands of runs are paged, and all active ones are there', async () => {
  const opened = await open(browser, report(folder, 'many', many(12_000, 500)));
  const { page } = opened;
  // The newest 10,000, and 500 queued runs that are older than all of them.
  assert.equal(await shown(page), '10,500 runs');
  assert.equal(await rows(page).count(), 25);
  assert.equal((await ids(page))[0], 'queued-000000');
  await page.getByRole('button', { name: 'Last' }).click();
  assert.equal(await page.locator('#pager span').textContent(), '10,476–10,500 of 10,500');
  await page.getByRole('combobox', { name: 'Order' }).selectOption({ label: 'Newest first' });
  assert.equal((await ids(page))[0], 'ended-000000');
  assert.match(await page.getByRole('button', { name: /Succeeded/ }).textContent(), /12,000.*10,000 on this page/);
  await page.getByRole('searchbox').fill('ended-009999');
  await page.waitForFunction(() => document.getElementById('count').textContent.startsWith('1 of'));
  await page.getByRole('link', { name: 'ended-009999' }).click();
  assert.match(await page.getByRole('dialog').textContent(), /It has no node runs/);
  await assertHarmless(opened);
  await page.context().close();
});

test('payloads can be left out', async () => {
  const { page } = await open(browser, report(folder, 'bare', shop(30), ['--payload-bytes', '0', '--limit', '0']));
  await page.locator('#list .run a').first().click();
  assert.match(await page.getByRole('dialog').textContent(), /were left out of this page/);
  assert.equal(await page.locator('#sheet-body > figure').count(), 0);
  await page.context().close();
});

test('the browser notices what a page must not do', async () => {
  const path = join(folder, 'bad.html');
  writeFileSync(path, `<!doctype html><title>t</title>${IMAGE}<script>console.log('hello')</script>`);
  const opened = await open(browser, path);
  await opened.page.waitForFunction(() => window.broken);
  await assert.rejects(assertHarmless(opened), /request: http/);
  await assert.rejects(assertAccessible(opened.page), /html-has-lang/);
  await opened.page.context().close();
});
