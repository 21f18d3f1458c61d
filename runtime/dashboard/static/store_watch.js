// Entries as they change.

import { h } from './dom.js';
import { actorPath, events } from './api.js';
import { badge, button, fault, table } from './ui.js';
import { clock, latest } from './format.js';
import { parse, short, stringify } from './json.js';
import { keyOf } from './store_entries.js';

const kept = 300;

export default function watch(page) {
  const prefix = h('input.filter', { type: 'search', placeholder: 'prefix: users or ["users"]; empty is all', 'aria-label': 'Prefix', spellcheck: 'false', value: page.query.get('prefix') ?? '' });
  const form = h('form.filters', { onsubmit: (e) => { e.preventDefault(); page.setQuery({ prefix: prefix.value }, true); start(); } }, prefix, h('button', 'Watch'));
  let list = [];
  let state = 'opening';
  let n = 0;
  let running = new AbortController();
  const part = page.section({
    title: 'Changes', cls: 'flush', form, actions: button('Clear', () => { list = []; part.set(list); }),
    show: (rows) => [h('p.live', badge(state, state === 'live' ? 'good' : 'warn')), table(['Time', { label: 'Version', class: 'num' }, { label: 'Key', class: 'key' }, { label: 'Value', class: 'clip' }], rows.map((c) => ({
      key: c.n, class: c.entry ? null : 'gone', cells: [c.at, c.version, h('code', stringify(c.key)), c.entry ? h('code', short(c.entry.value, 100)) : h('span.bad', 'removed')],
    })), { none: 'No change yet.', caption: 'Changes' })],
  });
  async function start() {
    running.abort();
    running = new AbortController();
    const signal = AbortSignal.any([page.signal, running.signal]);
    list = [];
    try {
      part.set(list);
      for await (const e of events(actorPath(page.actor) + 'kv-watch', { signal, method: 'POST', json: { prefixes: [keyOf(prefix.value)] } })) {
        if (e.event === 'dashboard.open') state = 'live';
        else if (e.event === 'dashboard.lost') state = 'lost';
        else if (e.event === 'change') {
          const data = parse(e.data);
          list = latest([...data.changes.map((c) => ({ ...c, n: n++, version: data.version, at: clock(Date.now()), size: e.data.length / data.changes.length })).reverse(), ...list], kept);
        }
        part.set(list);
      }
    } catch (e) {
      if (!signal.aborted) { state = 'lost'; part.set(list); part.el.append(fault(e)); }
    }
  }
  page.part.append(part.el);
  start();
}
