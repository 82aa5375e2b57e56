// What the page knows: all runs at once, and what is beneath them block by block, when it is first looked at.

const read = (id) => JSON.parse(document.getElementById(id).textContent);
const data = read('data');
const now = data.generatedAt;
const ACTIVE = new Set(['queued', 'running', 'waiting']);

for (const [place, run] of data.runs.entries()) {
  run.place = place;
  run.status = data.statuses[run.status];
  run.isActive = ACTIVE.has(run.status);
  run.look = run.stuck ?? run.agentStuck;
}

const blocks = new Map();

/** What is beneath a run. */
function detailsOf(run) {
  const block = Math.floor(run.place / data.runsPerBlock);
  if (!blocks.has(block)) {
    const details = read(`details-${block}`);
    for (const node of details.flatMap((detail) => detail.nodes)) {
      node.status = data.statuses[node.status];
      if (node.agent) node.agent.status = data.statuses[node.agent.status];
    }
    blocks.set(block, details);
  }
  return blocks.get(block)[run.place % data.runsPerBlock];
}

const projectOf = (run) => data.projects[run.project];
const workflowOf = (run) => data.workflows[run.workflow];

/** When a run ended, or now. */
const endOf = (run) => run.finishedAt ?? now;
const tookOf = (run) => endOf(run) - run.startedAt;
