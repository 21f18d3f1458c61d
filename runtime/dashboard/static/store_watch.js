// Entries as they change.

import { h } from './dom.js';
import { actorPath, events } from './api.js';
import { badge, button, fault, table } from './ui.js';
import { clock, latest, plain } from './format.js';
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
    show: (rows) => [h('p.live', badge(state, state === 'live' ? 'good' : 'warn')), table(['Time', { label: 'Version', class: 'num' }, { label: 'Key', class: 'key' }, { label: 'Value', class: 'clip' }], rows.map((c) => c.gap ? { key: c.n, class: 'mark', cells: ['', '', c.gap, ''] } : ({
      key: c.n, class: c.entry ? null : 'gone', cells: [c.at, c.version, h('code', stringify(c.key)), c.entry ? h('code', short(c.entry.value, 100)) : h('span.bad', 'removed')],
    })), { none: 'No change yet.', caption: 'Changes' })],
  });
  async function start() {
    running.abort();
    running = new AbortController();
    const signal = AbortSignal.any([page.signal, running.signal]);
    list = [];
    let told = 0; // the version up to which changes are shown
    let life; // of the actor that has it
    try {
      part.set(list);
      const watched = keyOf(prefix.value);
      const now = await page.call('kv.watch', { keys: [{ key: [...watched, ''] }] }, { signal }).catch(() => null); // it may not be there yet
      if (now) { told = plain(now.version); life = now.life; }
      for await (const e of events(actorPath(page.actor) + 'kv-watch', { signal, method: 'POST', json: { prefixes: [watched] } })) {
        if (e.event === 'dashboard.open') state = 'live';
        else if (e.event === 'dashboard.lost') {
          state = 'lost';
          if (!list[0]?.gap) list = [{ n: n++, gap: 'not watched for a while: what was removed then is not shown' }, ...list];
        } else if (e.event === 'change') {
          const data = parse(e.data);
          if (data.life !== life) told = 0;
          life = data.life;
          const changes = data.changes.filter((c) => !c.entry || plain(c.entry.version) > told); // one that comes back gets all that is there
          if (!data.more) told = plain(data.version);
          list = latest([...changes.map((c) => ({ ...c, n: n++, version: c.entry?.version ?? data.version, at: clock(Date.now()), size: e.data.length / data.changes.length })).reverse(), ...list], kept);
        }
        part.set(list);
      }
    } catch (e) {
      if (!signal.aborted) { state = 'not live'; part.set(list); part.el.append(fault(e)); }
    }
  }
  page.part.append(part.el);
  start();
}
