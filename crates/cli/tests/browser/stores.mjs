// Stores to look at: one whose texts try to break out of the page, and one with many runs.

import { execFileSync } from 'node:child_process';
import { join } from 'node:path';

export const NOW = '2026-03-01T12:00:00Z';

const at = (seconds) => new Date(Date.parse(NOW) - seconds * 1000).toISOString();
export const program = process.env.RUNLEDGER_BIN ?? 'runledger';

/** Carries out commands on a store, as many as fit in a step. */
function carryOut(url, commands) {
  const lines = [];
  for (let from = 0; from < commands.length; from += 1000)
    lines.push(JSON.stringify({ op: 'batch', commands: commands.slice(from, from + 1000) }));
  const answers = execFileSync(program, ['exec', url], { input: `${lines.join('\n')}\n`, maxBuffer: 2 ** 30, encoding: 'utf8' });
  const refused = answers.split('\n').find((answer) => answer.startsWith('{"error"'));
  if (refused) throw new Error(refused.slice(0, 500));
}

/** Writes the report of a store, and answers where it is. */
export function report(folder, name, commands, options = []) {
  const url = `sqlite:${join(folder, `${name}.db`)}?durability=relaxed`;
  carryOut(url, commands);
  const page = join(folder, `${name}.html`);
  execFileSync(program, ['report', url, '-o', page, '--now', NOW, ...options], { stdio: ['ignore', 'inherit', 'pipe'] });
  return page;
}

const queue = (projectId, id, workflowId, seconds, rest = {}) => ({
  op: 'runs.queue',
  projectId,
  id,
  workflowId,
  input: {},
  queuedAt: at(seconds),
  ...rest,
});
const start = (projectId, id, workflowId, seconds, rest = {}) => ({
  op: 'runs.start',
  projectId,
  id,
  workflowId,
  input: {},
  startedAt: at(seconds),
  ...rest,
});
const finish = (projectId, id, status, seconds, rest = {}) => ({
  op: 'runs.finish',
  projectId,
  id,
  status,
  finishedAt: at(seconds),
  ...rest,
});
const node = (projectId, id, run, workflowId, nodeIndex, seconds, rest = {}) => ({
  op: 'nodes.start',
  projectId,
  id,
  workflowRunId: run,
  workflowId,
  nodeIndex,
  nodeType: 'step',
  nodeId: `node-${nodeIndex}`,
  nodeKey: `step ${nodeIndex}`,
  input: {},
  startedAt: at(seconds),
  ...rest,
});
const endNode = (projectId, id, status, seconds, rest = {}) => ({
  op: 'nodes.finish',
  projectId,
  id,
  status,
  finishedAt: at(seconds),
  ...rest,
});
const lease = (token, seconds) => ({ token, queueLeaseExpiresAt: at(seconds) });

export const SCRIPT = '<script>window.broken = 1</script>';
export const IMAGE = '<img src="http://127.0.0.1:9/x" onerror="window.broken = 2">';
export const CLOSING = '</script><script>window.broken = 3</script><!-- ]]>';
export const RIGHT_TO_LEFT = 'طلب-١٧ של \u202Etxt.exe';
export const HUGE = 'huge-'.padEnd(512, 'x');
export const DEEP = `${'['.repeat(127)}"<b>deep</b>"${']'.repeat(127)}`;

/** Texts that a page must show and not obey. */
export function hostile() {
  const p = `shop ${SCRIPT}`;
  const deep = JSON.parse(DEEP);
  const error = `${CLOSING}\n${IMAGE}\u0000\u001b[31m & end`;
  const agentNode = { nodeType: 'agent', nodeKey: IMAGE, executionToken: CLOSING };
  return [
    start(p, SCRIPT, IMAGE, 7200, {
      execution: lease(CLOSING, 3600),
      input: { text: CLOSING },
      requestedByPrincipal: { type: SCRIPT, id: RIGHT_TO_LEFT },
    }),
    node(p, 'n-agent', SCRIPT, IMAGE, 0, 7000, agentNode),
    {
      op: 'agents.create',
      projectId: p,
      nodeRunId: 'n-agent',
      agentId: SCRIPT,
      prompt: `${IMAGE}\nline two ${RIGHT_TO_LEFT}`,
      createdAt: at(6990),
      executionToken: CLOSING,
    },
    {
      op: 'agents.start',
      projectId: p,
      nodeRunId: 'n-agent',
      execution: lease('agent-worker', 3000),
      modelId: SCRIPT,
      startedAt: at(6900),
    },
    node(p, 'n-after', SCRIPT, IMAGE, 1, 6000, { executionToken: CLOSING, nodeKey: HUGE, input: deep }),
    endNode(p, 'n-after', 'failed', 5000, { error, executionToken: CLOSING }),
    start(p, RIGHT_TO_LEFT, 'ledger', 500, { input: deep }),
    finish(p, RIGHT_TO_LEFT, 'failed', 400, { error }),
    start(p, HUGE, HUGE, 300, { source: CLOSING }),
    finish(p, HUGE, 'succeeded', 200, { output: { big: 'y'.repeat(5000) } }),
    queue(p, ' spaces ', 'ledger', 90_000),
    queue(p, '__proto__', 'constructor', 60),
    start('other', 'waits', 'ledger', 9000, { execution: lease('w', 0) }),
    { op: 'runs.wait', projectId: 'other', id: 'waits', executionToken: 'w', waitingAt: at(8000) },
    start('other', 'agent-lost', 'ledger', 900, { execution: lease('fine', -600) }),
    node('other', 'lost-node', 'agent-lost', 'ledger', 0, 890, { nodeType: 'agent', executionToken: 'fine' }),
    { op: 'agents.create', projectId: 'other', nodeRunId: 'lost-node', agentId: 'helper', prompt: 'do', createdAt: at(880) },
    { op: 'agents.start', projectId: 'other', nodeRunId: 'lost-node', execution: lease('gone', 100), startedAt: at(870) },
    start('other', 'first-year', 'ancient', 0, { startedAt: '0001-01-01T00:00:00Z' }),
    finish('other', 'first-year', 'succeeded', 0, { finishedAt: '9999-12-31T23:59:59.999999Z' }),
    start('other', 'backwards', 'ancient', 100),
    finish('other', 'backwards', 'cancelled', 200),
  ];
}

/** Dice that fall alike each time. */
function dice(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

const WORKFLOWS = [
  'checkout',
  'nightly-report',
  'ship-order',
  'refund',
  'sync-catalogue',
  'onboard-customer',
  'fraud-review',
  'import-prices',
];

/** A store such as a shop would have, with so many runs. */
export function shop(runs) {
  const roll = dice(7);
  const commands = [];
  for (let number = 0; number < runs; number += 1) {
    const workflow = WORKFLOWS[Math.floor(roll() ** 1.7 * WORKFLOWS.length)];
    const project = number % 5 === 0 ? 'backoffice' : 'shop';
    const id = `${workflow}-${String(runs - number).padStart(6, '0')}`;
    const began = 30 + number * 41 + roll() * 30;
    const took = Math.min(began - 1, (20 + WORKFLOWS.indexOf(workflow) * 14) * (0.4 + roll() * roll() * 5));
    const isNew = number < 24;
    const token = `worker-${Math.floor(roll() * 12)}/${number}`;
    if (isNew && number % 6 === 1) {
      commands.push(queue(project, id, workflow, number < 12 ? began : 9000 + began, { input: { order: number } }));
      continue;
    }
    const isLost = number === 8 || number === 15;
    commands.push(
      queue(project, id, workflow, began + 4, {
        input: { order: number, customer: `c-${Math.floor(roll() * 1e6)}` },
        requestedByPrincipal: { type: 'user', id: `u-${number % 31}` },
      }),
    );
    commands.push(
      start(project, id, workflow, began, {
        input: { order: number, items: [{ sku: 'A-17', count: 2 }] },
        execution: lease(token, isLost ? 2400 : -300),
      }),
    );
    const steps = 2 + Math.floor(roll() * 4);
    const isFailing = roll() < (workflow === 'fraud-review' ? 0.25 : 0.04);
    for (let step = 0; step < steps; step += 1) {
      const from = began - (took / steps) * step;
      const isLast = step === steps - 1;
      const isAgent = step === 1;
      const key = ['receive', isAgent ? 'review' : 'check', 'charge card', 'pack', 'send', 'notify'][step];
      commands.push(
        node(project, `${id}/${step}`, id, workflow, step, from, {
          nodeKey: key,
          nodeType: isAgent ? 'agent' : 'step',
          executionToken: token,
          input: { step, of: steps },
        }),
      );
      if (isAgent) {
        commands.push({
          op: 'agents.create',
          projectId: project,
          nodeRunId: `${id}/${step}`,
          agentId: 'reviewer',
          prompt: 'Look at the order and say whether it can go on.',
          createdAt: at(from),
        });
        commands.push({
          op: 'agents.start',
          projectId: project,
          nodeRunId: `${id}/${step}`,
          execution: lease(`${token}/agent`, isNew ? -300 : 0),
          modelId: 'small-1',
          startedAt: at(from - took / steps / 5),
        });
      }
      if (isNew && isLast) break;
      const ended = from - took / steps;
      if (isAgent)
        commands.push({
          op: 'agents.finish',
          projectId: project,
          nodeRunId: `${id}/${step}`,
          executionToken: `${token}/agent`,
          status: 'succeeded',
          usage: { tokens: 300 + number },
          completedAt: at(ended),
        });
      commands.push(
        endNode(project, `${id}/${step}`, isLast && isFailing ? 'failed' : 'succeeded', ended, {
          executionToken: token,
          ...(isLast && isFailing ? { error: 'card declined by the bank: insufficient funds' } : { output: { ok: true } }),
        }),
      );
    }
    if (isNew && number % 6 === 3)
      commands.push({ op: 'runs.wait', projectId: project, id, executionToken: token, waitingAt: at(began - took) });
    if (isNew) continue;
    const status = isFailing ? 'failed' : roll() < 0.02 ? 'cancelled' : 'succeeded';
    commands.push(
      finish(project, id, status, began - took, {
        executionToken: token,
        ...(status === 'failed' ? { error: 'step "send" failed: card declined by the bank: insufficient funds' } : {}),
        ...(status === 'succeeded' ? { output: { shipped: true } } : {}),
      }),
    );
  }
  return commands;
}

/** Many runs that have ended, and some that have been queued since long before. */
export function many(ended, queued) {
  const six = (number) => String(number).padStart(6, '0');
  const commands = [];
  for (let number = 0; number < ended; number += 1) {
    commands.push(
      start('p', `ended-${six(number)}`, `w${number % 40}`, 100 + number),
      finish('p', `ended-${six(number)}`, 'succeeded', 50 + number),
    );
  }
  for (let number = 0; number < queued; number += 1) commands.push(queue('p', `queued-${six(number)}`, 'w0', 1e6 + number));
  return commands;
}
