// The sheet of one run: its facts, its timeline, its texts.

function moment(us) {
  return us === undefined ? undefined : [when(us, { title: clock(us, true) }), el('span', { class: 'soft' }, ` · ${ago(us)}`)];
}

const named = ([type, id]) => [name(type), ' ', name(id)];
const ownerFacts = (execution) =>
  execution
    ? [
        ['Owner', name(execution.token)],
        ['Lease ends', moment(execution.leaseEnd)],
      ]
    : [];

function facts(pairs) {
  const given = pairs.filter(([, value]) => value !== undefined);
  return el('dl', { class: 'facts' }, ...given.map(([term, value]) => el('div', {}, el('dt', {}, term), el('dd', {}, ...[value].flat()))));
}

/** JSON with a line for each member. Only white space is added: numbers, escapes and the order stay as they are. */
function laidOut(json) {
  let [out, depth, isText] = ['', 0, false];
  const line = () => `\n${'  '.repeat(depth)}`;
  for (let at = 0; at < json.length; at += 1) {
    const character = json[at];
    if (isText) {
      out += character;
      if (character === '\\') out += json[(at += 1)];
      else if (character === '"') isText = false;
    } else if (character === '"') {
      isText = true;
      out += character;
    } else if (character === '{' || character === '[') {
      const close = json.slice(at + 1).match(/^\s*([}\]])/);
      if (close) {
        out += character + close[1];
        at += close[0].length;
      } else {
        depth += 1;
        out += character + line();
      }
    } else if (character === '}' || character === ']') {
      depth -= 1;
      out += line() + character;
    } else if (character === ',') out += `,${line()}`;
    else if (character === ':') out += ': ';
    else if (!/\s/.test(character)) out += character;
  }
  return out;
}

/** A text as it is, or its beginning. */
function block(label, { text, bytes }, isJson, kind = '') {
  const held = new TextEncoder().encode(text).length;
  const isWhole = held === bytes;
  const note = isWhole ? size(bytes) : `the first ${size(held)} of ${size(bytes)}`;
  const shown = visible(isJson && isWhole ? laidOut(text) : text);
  return el(
    'figure',
    { class: `text ${kind}` },
    el('figcaption', {}, el('span', {}, label), el('span', { class: 'soft' }, note)),
    el('pre', { tabindex: '0', role: 'group', 'aria-label': label }, el('bdi', {}, isWhole ? shown : `${shown}…`)),
  );
}

function texts({ error, large = [] }) {
  const blocks = large.map(([slot, cut]) => block(capital(slot), cut, slot !== 'prompt'));
  return error ? [block('Error', error, false, 'error'), ...blocks] : blocks;
}

function showSheet(run) {
  const details = detailsOf(run);
  byId('sheet-title').replaceChildren(pill(run.status), ' ', name(run.id));
  const left = [
    details.hasMoreNodes ? 'This run has more node runs than this page holds.' : undefined,
    details.lacksPayloads ? 'Payloads and prompts of this run, or some of them, were left out of this page.' : undefined,
  ].filter(Boolean);
  const nodes = details.nodes.length;
  byId('sheet-body').replaceChildren(
    ...[
      run.stuck ? el('p', { class: 'warning' }, lookOf(run.stuck)) : undefined,
      run.agentStuck ? el('p', { class: 'warning' }, lookOf(run.agentStuck, 'agent run ')) : undefined,
      facts([
        ['Workflow', name(workflowOf(run))],
        ['Project', name(projectOf(run))],
        ['Attempt', count(run.attempt)],
        ['Queued', moment(run.queuedAt)],
        ['Started', run.status === 'queued' ? undefined : moment(run.startedAt)],
        ['Waiting since', moment(run.waitingSince)],
        ['Finished', moment(run.finishedAt)],
        ['Took', run.status === 'queued' ? undefined : openFor(run.startedAt, run.finishedAt)],
        ...ownerFacts(run.execution),
        ['Requested by', run.requestedBy && named(run.requestedBy)],
      ]),
      ...texts({ error: details.error }),
      el('h3', {}, 'Timeline'),
      el('p', { class: 'soft' }, nodes === 0 ? 'It has no node runs.' : `${plural(nodes, 'node run')}; each opens.`),
      timeline(run, details),
      ...texts({ large: details.large }),
      ...left.map((text) => el('p', { class: 'soft' }, text)),
    ].filter(Boolean),
  );
  const at = matching.indexOf(run);
  byId('previous').disabled = at <= 0;
  byId('next').disabled = at < 0 || at === matching.length - 1;
  if (!byId('sheet').open) byId('sheet').showModal();
  byId('sheet').scrollTop = 0;
  byId('sheet-title').focus();
}

const shownRun = () => data.runs[/^#run-(\d+)$/.exec(location.hash)?.[1]];

/** The address says which run is shown, so that going back closes it. */
function followAddress() {
  const run = shownRun();
  if (run) showSheet(run);
  else if (byId('sheet').open) byId('sheet').close();
}

function prepareSheet() {
  const step = (by) => {
    const run = matching[matching.indexOf(shownRun()) + by];
    if (!run) return;
    history.replaceState(null, '', `#run-${run.place}`);
    showSheet(run);
  };
  byId('previous').addEventListener('click', () => step(-1));
  byId('next').addEventListener('click', () => step(1));
  byId('close').addEventListener('click', () => byId('sheet').close());
  byId('sheet').addEventListener('click', (event) => {
    if (event.target === byId('sheet')) byId('sheet').close();
  });
  byId('sheet').addEventListener('close', () => {
    if (shownRun()) history.replaceState(null, '', location.href.split('#')[0]);
  });
  window.addEventListener('hashchange', followAddress);
}
