// The list of runs: what is asked for, in which order, a page at a time.

const ROWS = 25;
const asked = { words: [], only: new Set(), project: -1, workflow: -1, order: 'urgent', page: 0 };
let matching = [];

const STUCK = 'stuck';
const KINDS = [STUCK, 'running', 'waiting', 'queued', 'failed', 'succeeded', 'cancelled'];
const isOf = (run, kind) => (kind === STUCK ? run.look !== undefined : run.status === kind);

const URGENCY = (run) => (run.look ? 0 : run.isActive ? 1 : run.status === 'failed' ? 2 : 3);
const newer = (one, other) => other.startedAt - one.startedAt || one.place - other.place;
const ORDERS = {
  urgent: ['Stuck first', (one, other) => URGENCY(one) - URGENCY(other) || newer(one, other)],
  newest: ['Newest first', newer],
  oldest: ['Oldest first', (one, other) => -newer(one, other)],
  longest: ['Longest first', (one, other) => tookOf(other) - tookOf(one) || newer(one, other)],
};

/** All that a search looks at, made when it is first needed. */
function searchable(run) {
  const texts = () => [run.id, workflowOf(run), projectOf(run), run.execution?.token, run.error?.text, run.requestedBy?.join(' ')];
  run.text ??= texts().join('\n').toLowerCase();
  return run.text;
}

const isInProject = (run) => asked.project < 0 || run.project === asked.project;

function matches(run) {
  return (
    isInProject(run) &&
    (asked.workflow < 0 || run.workflow === asked.workflow) &&
    (asked.only.size === 0 || [...asked.only].some((kind) => isOf(run, kind))) &&
    asked.words.every((word) => searchable(run).includes(word))
  );
}

/** Asks for something else, and shows it from its beginning. */
function ask(change) {
  Object.assign(asked, { page: 0 }, change);
  showRuns();
}

function showRuns() {
  matching = data.runs.filter(matches).sort(ORDERS[asked.order][1]);
  const last = Math.max(0, Math.ceil(matching.length / ROWS) - 1);
  asked.page = Math.min(asked.page, last);
  const from = asked.page * ROWS;
  byId('list').tBodies[0].replaceChildren(...matching.slice(from, from + ROWS).map(row));
  byId('nothing').hidden = matching.length > 0;
  byId('list').hidden = matching.length === 0;
  const isAll = matching.length === data.runs.length;
  byId('count').textContent = `${isAll ? '' : `${count(matching.length)} of `}${plural(data.runs.length, 'run')}`;
  byId('clear').hidden = isAll;
  showTiles();
  showPager(from, last);
}

function row(run) {
  const cell = (kind, ...children) => el('td', { role: 'cell', class: kind }, ...children);
  const project = data.projects.length > 1 ? el('span', { class: 'sub' }, name(projectOf(run))) : undefined;
  return el(
    'tr',
    { role: 'row', class: run.look ? 'look' : undefined },
    cell('status', pill(run.status)),
    el('th', { role: 'rowheader', scope: 'row', class: 'run' }, el('a', { href: `#run-${run.place}` }, name(run.id)), project),
    cell('workflow', name(workflowOf(run))),
    cell('began', when(run.startedAt), el('span', { class: 'sub' }, ago(run.startedAt))),
    cell('took number', run.status === 'queued' ? '–' : duration(tookOf(run))),
    cell('note', ...note(run)),
  );
}

/** What matters most about a run. */
function note(run) {
  const owner = run.execution ? [el('span', { class: 'sub' }, 'owner ', name(run.execution.token))] : [];
  if (run.stuck) return [el('strong', {}, lookOf(run.stuck)), ...owner];
  if (run.agentStuck) return [el('strong', {}, lookOf(run.agentStuck, 'agent run ')), ...owner];
  if (run.error) return [el('bdi', { class: 'error' }, visible(run.error.text))];
  if (run.execution) return [`lease ends ${ago(run.execution.leaseEnd)}`, ...owner];
  if (run.waitingSince !== undefined) return [`waiting for ${duration(now - run.waitingSince)}`];
  return [];
}

/** How many runs of each kind there are: in the store, and among them here. */
function showTiles() {
  const inProject = data.runs.filter(isInProject);
  const counts = data.counts.filter((each) => asked.project < 0 || each.project === asked.project);
  const tiles = KINDS.map((kind) => {
    const here = inProject.filter((run) => isOf(run, kind)).length;
    const status = data.statuses.indexOf(kind);
    const all =
      kind === STUCK
        ? here
        : Math.max(
            here,
            counts.reduce((sum, each) => sum + each.byStatus[status], 0),
          );
    const toggle = () => {
      if (!asked.only.delete(kind)) asked.only.add(kind);
      ask({});
      byId('tiles').querySelector(`[data-kind=${kind}]`).focus();
    };
    const attributes = {
      type: 'button',
      class: `card tile ${kind}`,
      'data-kind': kind,
      'aria-pressed': String(asked.only.has(kind)),
      onclick: toggle,
    };
    const sub = kind === STUCK && all > 0 ? 'look here' : here < all ? `${count(here)} on this page` : '';
    return el(
      'li',
      {},
      el(
        'button',
        attributes,
        el('span', { class: 'figure' }, count(all)),
        el('span', { class: 'label' }, capital(kind)),
        el('span', { class: 'sub' }, sub),
      ),
    );
  });
  byId('tiles').replaceChildren(...tiles);
}

function showPager(from, last) {
  const go = (page) => {
    asked.page = page;
    showRuns();
    byId('runs').scrollIntoView();
    byId('list').querySelector('a')?.focus({ preventScroll: true });
  };
  const turn = (label, page, isOff) => el('button', { type: 'button', class: 'plain', disabled: isOff, onclick: () => go(page) }, label);
  const { page } = asked;
  byId('pager').hidden = last === 0;
  byId('pager').replaceChildren(
    turn('First', 0, page === 0),
    turn('Previous', page - 1, page === 0),
    el('span', { class: 'soft' }, `${count(from + 1)}–${count(Math.min(from + ROWS, matching.length))} of ${count(matching.length)}`),
    turn('Next', page + 1, page === last),
    turn('Last', last, page === last),
  );
}

function showFilters() {
  const option = ([label, value]) => el('option', { value }, label);
  const short = (text) => (text.length > 60 ? `${visible(text).slice(0, 59)}…` : visible(text));
  const places = (names) => names.map((text, place) => [short(text), place]).sort(([one], [other]) => (one < other ? -1 : 1));
  const choice = (id, options, changed) => {
    for (const each of options) byId(id).append(option(each));
    byId(id).addEventListener('change', (event) => changed(event.target.value));
  };
  choice('project', [['All projects', -1], ...places(data.projects)], (value) => {
    ask({ project: Number(value) });
    showWorkflows();
  });
  choice('workflow', [['All workflows', -1], ...places(data.workflows)], (value) => ask({ workflow: Number(value) }));
  choice(
    'order',
    Object.entries(ORDERS).map(([value, [label]]) => [label, value]),
    (order) => ask({ order }),
  );
  byId('project-label').hidden = data.projects.length < 2;
  let pause;
  byId('search').addEventListener('input', (event) => {
    clearTimeout(pause);
    pause = setTimeout(() => ask({ words: event.target.value.toLowerCase().split(/\s+/).filter(Boolean) }), 60);
  });
  byId('clear').addEventListener('click', () => {
    for (const [id, value] of [
      ['search', ''],
      ['project', -1],
      ['workflow', -1],
    ])
      byId(id).value = value;
    ask({ words: [], only: new Set(), project: -1, workflow: -1 });
    showWorkflows();
    byId('search').focus();
  });
}
