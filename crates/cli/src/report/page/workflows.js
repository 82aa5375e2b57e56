// The workflows: how many of their runs succeed, and how long they take, over time.

const CARDS = 12;
const ENDS = ['succeeded', 'failed', 'cancelled'];
const FEWEST = 12;
const HEIGHT = 76;
let shownCards = CARDS;

/** Runs that have ended, and counts over the store, by workflow; the ones with trouble first. */
function grouped() {
  const groups = new Map();
  const of = (project, workflow) => {
    const key = `${project}/${workflow}`;
    if (!groups.has(key)) groups.set(key, { project, workflow, ended: [], byStatus: data.statuses.map(() => 0), looks: 0 });
    return groups.get(key);
  };
  for (const each of data.counts.filter(isInProject)) of(each.project, each.workflow).byStatus = each.byStatus;
  for (const run of data.runs.filter(isInProject)) {
    const group = of(run.project, run.workflow);
    if (!run.isActive) group.ended.push(run);
    if (run.look) group.looks += 1;
  }
  const failed = (group) => group.byStatus[data.statuses.indexOf('failed')];
  const total = (group) => group.byStatus.reduce((sum, each) => sum + each, 0);
  const order = (one, other) => other.looks - one.looks || failed(other) - failed(one) || total(other) - total(one);
  return [...groups.values()].sort(order);
}

function together(groups) {
  return {
    ended: groups.flatMap((group) => group.ended),
    byStatus: data.statuses.map((_, place) => groups.reduce((sum, group) => sum + group.byStatus[place], 0)),
    looks: groups.reduce((sum, group) => sum + group.looks, 0),
  };
}

const LENGTHS = [1, 5, 15, 60, 300, 900, 3600, 10_800, 21_600, 43_200, 86_400, 604_800, 2_592_000].map((seconds) => seconds * 1e6);

/** At most so many stretches of one round length that cover all ends. */
function bucketsOf(ended, most) {
  let [first, last] = [Infinity, -Infinity];
  for (const run of ended) [first, last] = [Math.min(first, run.finishedAt), Math.max(last, run.finishedAt)];
  const round = LENGTHS.find((each) => Math.floor(last / each) - Math.floor(first / each) < most);
  const step = round ?? Math.ceil((last - first + 1) / most);
  const end = round ? (Math.floor(last / round) + 1) * round : last + 1;
  // A few ends are drawn at the right, where the present is, and not as wide as the chart.
  const number = Math.max(FEWEST, Math.ceil((end - first) / step));
  const begin = end - number * step;
  const buckets = Array.from({ length: number }, (_, place) => ({ from: begin + place * step, runs: [] }));
  const placeOf = (us) => Math.max(0, Math.min(number - 1, Math.floor((us - begin) / step)));
  for (const run of ended) buckets[placeOf(run.finishedAt)].runs.push(run);
  for (const bucket of buckets) {
    bucket.counts = ENDS.map((status) => bucket.runs.filter((run) => run.status === status).length);
    const took = bucket.runs.map(tookOf).sort((one, other) => one - other);
    const at = (part) => took[Math.max(0, Math.ceil(took.length * part) - 1)];
    [bucket.median, bucket.p95] = [at(0.5), at(0.95)];
  }
  return { buckets, last };
}

const percent = (part) => `${(part * 100).toFixed(2)}%`;

function outcomesChart(buckets) {
  const most = Math.max(...buckets.map((bucket) => bucket.runs.length));
  const width = 1 / buckets.length;
  const columns = buckets.map((bucket, at) => {
    let bottom = HEIGHT;
    const parts = bucket.counts.map((number, place) => {
      if (number === 0) return undefined;
      const height = (number / most) * (HEIGHT - 14);
      bottom -= height;
      const box = {
        x: percent((at + 0.12) * width),
        width: percent(width * 0.76),
        y: bottom.toFixed(1),
        height: Math.max(height, 1).toFixed(1),
      };
      return shape('rect', { class: `part ${ENDS[place]}`, ...box });
    });
    return shape('g', {}, shape('title', {}, `${clock(bucket.from)}: ${spoken(bucket)}`), ...parts);
  });
  return chart('Runs that ended, by outcome, over time', count(most), columns);
}

const spoken = (bucket) => bucket.counts.map((number, place) => `${count(number)} ${ENDS[place]}`).join(', ');

function durationsChart(buckets) {
  const most = Math.max(1, ...buckets.map((bucket) => bucket.p95 ?? 0));
  const x = (place) => percent((place + 0.5) / buckets.length);
  const y = (us) => (HEIGHT - 3 - (Math.max(0, us) / most) * (HEIGHT - 20)).toFixed(1);
  const line = (of) => {
    const points = buckets.map((bucket, place) => [place, bucket[of]]).filter(([, us]) => us !== undefined);
    const lines = points.slice(1).map(([place, us], before) => {
      const [placeBefore, usBefore] = points[before];
      return shape('line', { class: `line ${of}`, x1: x(placeBefore), y1: y(usBefore), x2: x(place), y2: y(us) });
    });
    const dots = points.map(([place, us]) =>
      shape(
        'circle',
        { class: `dot ${of}`, cx: x(place), cy: y(us), r: '2.5' },
        shape('title', {}, `${clock(buckets[place].from)}: ${of === 'median' ? 'median' : '95 of 100 within'} ${duration(us)}`),
      ),
    );
    return [...lines, ...dots];
  };
  return chart('How long runs took, over time', duration(most), [...line('p95'), ...line('median')]);
}

function chart(title, most, shapes) {
  return shape(
    'svg',
    { class: 'chart', role: 'img', width: '100%', height: HEIGHT, 'aria-label': `${title}; the figures follow.` },
    shape('line', { class: 'rule', x1: '0', x2: '100%', y1: HEIGHT - 0.5, y2: HEIGHT - 0.5 }),
    shape('line', { class: 'rule faint', x1: '0', x2: '100%', y1: '14', y2: '14' }),
    ...shapes,
    shape('text', { class: 'tick', x: '0', y: '10' }, most),
  );
}

/** What the charts show, for those who would rather read it. */
function figures(buckets) {
  const heads = ['From', ...ENDS.map(capital), 'Median', '95 of 100'];
  const box = el('div', { class: 'figures', tabindex: '0', role: 'group', 'aria-label': 'Figures of the charts' });
  const line = (bucket) =>
    el(
      'tr',
      {},
      el('th', { scope: 'row' }, clock(bucket.from)),
      ...bucket.counts.map((number) => el('td', {}, count(number))),
      el('td', {}, duration(bucket.median)),
      el('td', {}, duration(bucket.p95)),
    );
  const table = () =>
    el(
      'table',
      {},
      el('thead', {}, el('tr', {}, ...heads.map((head) => el('th', { scope: 'col' }, head)))),
      el('tbody', {}, ...buckets.filter((bucket) => bucket.runs.length).map(line)),
    );
  const show = () => {
    if (details.open && !box.hasChildNodes()) box.append(table());
  };
  const details = el('details', { ontoggle: show }, el('summary', {}, 'Figures'), box);
  return details;
}

function card(group, title, isWide) {
  const of = (status) => group.byStatus[data.statuses.indexOf(status)];
  const judged = of('succeeded') + of('failed');
  const total = group.byStatus.reduce((sum, each) => sum + each, 0);
  const open = ['running', 'waiting', 'queued', 'failed'].filter(of).map((status) => `${count(of(status))} ${status}`);
  const stuck = group.looks ? el('strong', { class: 'looks' }, ` · ${count(group.looks)} stuck`) : undefined;
  return el(
    'li',
    { class: `card flow${isWide ? ' wide' : ''}` },
    el(
      'div',
      { class: 'title' },
      el('h3', {}, title),
      el(
        'p',
        { class: 'rate' },
        el('strong', {}, judged ? rateOf(of('succeeded') / judged) : '–'),
        el('span', { class: 'sub' }, 'success'),
      ),
    ),
    el('p', { class: 'soft' }, [plural(total, 'run'), ...open].join(' · '), stuck),
    charts(group.ended, isWide ? 60 : 28),
    group.workflow === undefined ? undefined : showRunsOf(group.workflow),
  );
}

function charts(ended, most) {
  if (ended.length === 0) return [el('p', { class: 'soft' }, 'None of its runs on this page has ended.')];
  const { buckets, last } = bucketsOf(ended, most);
  const ends = el('p', { class: 'ends soft' }, el('span', {}, minute(buckets[0].from)), el('span', {}, minute(last)));
  return [outcomesChart(buckets), durationsChart(buckets), ends, figures(buckets)];
}

function showRunsOf(workflow) {
  const show = () => {
    byId('workflow').value = workflow;
    ask({ workflow });
    byId('runs').scrollIntoView();
    byId('runs').focus({ preventScroll: true });
  };
  return el(
    'button',
    { type: 'button', class: 'plain', onclick: show },
    'Show its runs',
    el('span', { class: 'hidden' }, `: ${visible(data.workflows[workflow])}`),
  );
}

const minute = (us) => clock(us).slice(0, -3);

/** No rounding makes a failure disappear. */
const rateOf = (rate) => (rate === 1 ? '100 %' : `${(Math.floor(rate * 1000) / 10).toFixed(1)} %`);

function showWorkflows() {
  const groups = grouped();
  const several = new Set(groups.map((group) => group.project)).size > 1;
  const from = (group) => (several ? el('span', { class: 'sub' }, name(data.projects[group.project])) : undefined);
  const titleOf = (group) => [name(data.workflows[group.workflow]), from(group)];
  const all = groups.length > 1 ? [card(together(groups), ['All workflows'], true)] : [];
  const one = (group) => card(group, titleOf(group), groups.length === 1);
  byId('cards').replaceChildren(...all, ...groups.slice(0, shownCards).map(one));
  byId('workflows').hidden = groups.length === 0;
  const left = groups.length - shownCards;
  byId('more').hidden = left <= 0;
  byId('more').textContent = `Show ${count(Math.min(left, 4 * CARDS))} more of ${plural(left, 'workflow')}`;
}
