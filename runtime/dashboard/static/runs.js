// Workflow runs of the node that do not go on, with verbs for each.

import { h } from './dom.js';
import { call, get } from './api.js';
import { badge, button, note, table, time, verb } from './ui.js';
import { address, ago, link, number } from './format.js';

const size = 50;

export default function runs(page) {
  const q = page.query;
  const cursors = (q.get('c') ?? '').split('~').filter(Boolean);
  const where = new URLSearchParams({ limit: size });
  for (const name of ['type', 'state', 'reason']) if (q.get(name)) where.set(name, q.get(name));
  if (cursors.length) where.set('cursor', cursors[cursors.length - 1]);
  const counts = page.section({
    title: 'By type and reason', cls: 'flush', load: (signal) => get('workflows/counts', { signal }),
    show: (r) => table([{ label: 'Type', class: 'grow' }, 'State', 'Reason', { label: 'Runs', class: 'num' }], (r.counts ?? []).map((c) => ({
      key: [c.type, c.state, c.reason].join(), href: '#/runs?' + new URLSearchParams({ type: c.type, state: c.state, ...(c.reason ? { reason: c.reason } : {}) }),
      selected: q.get('type') === c.type && q.get('state') === c.state && (q.get('reason') ?? '') === (c.reason ?? ''),
      cells: [c.type, badge(c.state), c.reason ?? '', number(c.count)],
    })), { none: 'No run is paused or has failed.', caption: 'Counts' }),
  });
  const list = page.section({
    title: 'Runs', cls: 'flush', load: (signal) => get('workflows?' + where, { signal }),
    actions: where.size > 1 ? button('Show all', () => page.setQuery({ type: '', state: '', reason: '', c: '' })) : null,
    show: (r) => [table(['Actor', { label: 'Workflow', class: 'opt' }, 'State', { label: 'Why', class: 'grow' }, { label: 'Since', class: 'num opt' }, { label: 'Next try', class: 'num opt' }, ''], (r.runs ?? []).map((x) => ({
      key: x.run + address(x), href: link(x, 'run'),
      cells: [address(x), x.workflow, badge(x.state), [x.reason ? h('strong', x.reason, ' ') : null, x.text ?? ''], time(x.since), x.next ? ago(x.next) : '–',
        h('span.verbs', x.state === 'paused' ? verb('Resume', { small: true, title: 'Resume the run of ' + address(x), run: (_, reason) => call(x, 'workflow.resume', { reason, run: x.run }, { reason }), done: () => list.refresh() }) : null)],
    })), { none: 'None.', caption: 'Runs' }), h('div.pager', cursors.length ? button('← Back', () => page.setQuery({ c: cursors.slice(0, -1).join('~') })) : null,
      r.cursor ? button('Next →', () => page.setQuery({ c: [...cursors, r.cursor].join('~') })) : null)],
  });
  page.root.append(h('h1', 'Workflow runs that need a look'), counts.el, list.el, note('Runs that go on by themselves are in the list of actors, and on the page of their actor.'));
}
