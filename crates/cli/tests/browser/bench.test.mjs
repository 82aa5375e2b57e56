// The page of `runledger bench`.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { LOOKS, assertAccessible, assertHarmless, launch, open } from './browser.mjs';
import { program } from './stores.mjs';

let browser;
let folder;
let path;
let measured;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'runledger-bench-page-'));
  path = join(folder, 'bench.html');
  const little = ['--seconds', '0.2', '--lists', '20,200', '--callers', '2', '--durability', 'relaxed', '--dir', folder];
  const urls = ['memory:', `sqlite:${join(folder, 'a.db')}`, `redb:${join(folder, 'a.redb')}`];
  measured = JSON.parse(execFileSync(program, ['bench', ...urls, ...little, '-o', path, '--output', 'json'], { encoding: 'utf8' }));
  browser = await launch();
});

after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true, force: true });
});

for (const look of LOOKS) {
  test(`charts of all that was measured: ${look.name}`, async () => {
    const opened = await open(browser, path, look);
    const { page } = opened;
    const backends = measured.backends.map(({ backend }) => backend);
    assert.deepEqual(backends, ['memory', 'sqlite', 'redb']);
    const charts = page.getByRole('img');
    assert.equal(await charts.count(), 4);
    for (const backend of backends) {
      for (const label of await charts.evaluateAll((all) => all.map((chart) => chart.getAttribute('aria-label')))) {
        assert.ok(label.includes(backend), `${backend} in ${label}`);
      }
    }
    // The longest bar is that of the fastest backend, and has the width of the chart.
    const fastest = measured.backends.reduce((one, other) => (one.transitions.perSecond > other.transitions.perSecond ? one : other));
    const widths = await charts.first().locator('.fill').evaluateAll((bars) => bars.map((bar) => bar.getAttribute('width')));
    assert.equal(widths[backends.indexOf(fastest.backend)], '100.00%');
    const rows = await page.locator('table').first().locator('tbody tr').allTextContents();
    assert.equal(rows.length, 3);
    await assertAccessible(page);
    await assertHarmless(opened);
    await page.context().close();
  });
}

test('nothing is left beside the page', () => {
  assert.deepEqual(readdirSync(folder).filter((name) => name.startsWith('.runledger-') || name.startsWith('runledger-bench-')), []);
});
