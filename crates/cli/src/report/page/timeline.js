// The timeline of a run: a lane for the run, one for each node run, and one beneath it for its agent run.

const LANES = 200;

/** The stretches of a lane: each from, to, and what it was then. */
function stretchesOf(from, { queuedUntil, waitingSince, finishedAt, status }) {
  const parts = [];
  const end = finishedAt ?? now;
  let began = from;
  if (status === 'queued') return [{ from, to: now, kind: 'queued', isOpen: true }];
  if (queuedUntil !== undefined && queuedUntil > from) {
    parts.push({ from, to: queuedUntil, kind: 'queued' });
    began = queuedUntil;
  }
  if (waitingSince !== undefined) {
    parts.push({ from: began, to: waitingSince, kind: 'running' }, { from: waitingSince, to: end, kind: 'waiting', isOpen: true });
  } else {
    parts.push({ from: began, to: end, kind: status, isOpen: finishedAt === undefined });
  }
  return parts;
}

const ofRun = (run) => stretchesOf(run.queuedAt ?? run.startedAt, { ...run, queuedUntil: run.startedAt });
const ofNode = (node) => stretchesOf(node.startedAt, node);
const ofAgent = ({ createdAt, startedAt, completedAt, status }) =>
  stretchesOf(createdAt, { status, queuedUntil: startedAt ?? completedAt, finishedAt: completedAt });

/** The time that a timeline shows. Workers' clocks differ: what began before its run is drawn where it says it was. */
function spanOf(stretches) {
  let [from, to] = [Infinity, -Infinity];
  for (const stretch of stretches) {
    from = Math.min(from, stretch.from, stretch.to);
    to = Math.max(to, stretch.from, stretch.to);
  }
  return { from, to: Math.max(to, from + 1) };
}

function track(stretches, span) {
  const percent = (us) => ((us - span.from) / (span.to - span.from)) * 100;
  const bars = stretches.map(({ from, to, kind, isOpen }) => {
    const [left, right] = [percent(Math.min(from, to)), percent(Math.max(from, to))];
    const bar = el('span', { class: `stretch ${kind}${isOpen ? ' open' : ''}` });
    bar.style.left = `${Math.min(left, 99.6).toFixed(3)}%`;
    bar.style.width = `${Math.max(right - left, 0.4).toFixed(3)}%`;
    return bar;
  });
  return el('span', { class: 'track', 'aria-hidden': 'true' }, ...bars);
}

const STEPS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5],
  ...[1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400].map((seconds) => seconds * 1e6),
];

/** Round steps from the beginning on, about five of them. */
function axis(span) {
  const length = span.to - span.from;
  const step = STEPS.find((each) => length / each <= 5) ?? Math.ceil(length / 5 / 86_400e6) * 86_400e6;
  const ticks = [];
  for (let at = 0; at <= length * 0.85; at += step) {
    const tick = el('span', {}, at === 0 ? '0' : duration(at));
    tick.style.left = `${((at / length) * 100).toFixed(3)}%`;
    ticks.push(tick);
  }
  return el('div', { class: 'axis', 'aria-hidden': 'true' }, el('span', { class: 'ticks' }, ...ticks));
}

/** A lane that opens: what it is about is made when it is first opened. */
function lane({ kind, title, type, status, stretches, took, inside, span }) {
  const box = el('div', { class: 'inside' });
  const details = el(
    'details',
    {
      ontoggle: () => {
        if (details.open && !box.hasChildNodes()) box.append(...inside());
      },
    },
    el(
      'summary',
      {},
      el('span', { class: 'title' }, title, type ? el('span', { class: 'sub' }, type) : undefined),
      track(stretches, span),
      el('span', { class: 'took' }, el('span', { class: 'hidden' }, `${status}, `), took),
    ),
    box,
  );
  return el('li', { class: `lane ${kind}` }, details);
}

const openFor = (from, end) => (end === undefined ? `${duration(now - from)} so far` : duration(end - from));

function nodeLane(node, span) {
  return lane({
    kind: 'node',
    title: name(node.nodeKey),
    type: node.nodeType === 'agent' ? undefined : name(node.nodeType),
    status: node.status,
    stretches: ofNode(node),
    took: openFor(node.startedAt, node.finishedAt),
    span,
    inside: () => [
      facts([
        ['Status', pill(node.status)],
        ['Id', name(node.id)],
        ['Node', name(node.nodeId)],
        ['Type', name(node.nodeType)],
        ['Index', count(node.nodeIndex)],
        ['Started', moment(node.startedAt)],
        ['Waiting since', moment(node.waitingSince)],
        ['Finished', moment(node.finishedAt)],
      ]),
      ...texts(node),
    ],
  });
}

function agentLane(agent, span) {
  return lane({
    kind: `agent${agent.stuck ? ' look' : ''}`,
    title: name(agent.agentId),
    type: agent.stuck ? 'agent run, stuck' : 'agent run',
    status: agent.status,
    stretches: ofAgent(agent),
    took: openFor(agent.startedAt ?? agent.createdAt, agent.completedAt),
    span,
    inside: () =>
      [
        agent.stuck ? el('p', { class: 'warning' }, lookOf(agent.stuck)) : undefined,
        facts([
          ['Status', pill(agent.status)],
          ['Model', agent.modelId && name(agent.modelId.text)],
          ['Finish reason', agent.finishReason && name(agent.finishReason.text)],
          ['Attempt', count(agent.attempt)],
          ['Created', moment(agent.createdAt)],
          ['Started', moment(agent.startedAt)],
          ['Completed', moment(agent.completedAt)],
          ['On behalf of', agent.executionPrincipal && named(agent.executionPrincipal)],
          ...ownerFacts(agent.execution),
        ]),
        ...texts(agent),
      ].filter(Boolean),
  });
}

function timeline(run, details) {
  const { nodes } = details;
  const agents = nodes.filter((node) => node.agent).map((node) => node.agent);
  const span = spanOf([ofRun(run), ...nodes.map(ofNode), ...agents.map(ofAgent)].flat());
  const own = el(
    'li',
    { class: 'lane run' },
    el(
      'div',
      { class: 'summary' },
      el('span', { class: 'title' }, 'The run'),
      track(ofRun(run), span),
      el('span', { class: 'took' }, openFor(run.startedAt, run.finishedAt)),
    ),
  );
  const list = el('ol', { class: 'lanes' }, own);
  const add = (from) => {
    for (const node of nodes.slice(from, from + LANES)) {
      list.append(nodeLane(node, span));
      if (node.agent) list.append(agentLane(node.agent, span));
    }
    const left = nodes.length - from - LANES;
    if (left <= 0) return;
    const more = el('li', { class: 'more' });
    const show = () => {
      more.remove();
      add(from + LANES);
    };
    const label = `Show ${plural(Math.min(left, LANES), 'more node run')} of ${count(left)}`;
    more.append(el('button', { type: 'button', class: 'plain', onclick: show }, label));
    list.append(more);
  };
  add(0);
  return el('div', { class: 'timeline' }, axis(span), list);
}
