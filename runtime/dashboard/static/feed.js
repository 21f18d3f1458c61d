// What changes in all actors of the node, as it becomes durable.

import { h, patch } from './dom.js';
import { events } from './api.js';
import { badge, button, fault, moment, table } from './ui.js';
import { address, latest, link, number } from './format.js';
import { body } from './queues.js';
import { parse } from './json.js';
import { scrape } from './metrics.js';

const kept = 500;
const kinds = ['event', 'state', 'kv', 'alarm', 'life', 'queue', 'conn', 'sql', 'workflow', 'audit'];
const tabs = { event: 'events', state: 'state', kv: 'store', alarm: 'timers', queue: 'queues', conn: 'connections', sql: 'sql', workflow: 'run', audit: 'audit' };
const tones = { event: 'info', life: 'good', audit: 'warn' };

export default function feed(page) {
  const type = page.query.get('type') ?? '';
  const kind = page.query.get('kind') ?? '';
  let list = [];
  let state = 'opening';
  let held = false;
  let n = 0;
  const options = (all, values, chosen) => [h('option', { value: '' }, all), values.map((v) => h('option', { value: v, selected: v === chosen }, v))];
  const types = h('select', { 'aria-label': 'Type', onchange: (e) => page.setQuery({ type: e.target.value }) }, options('all types', type ? [type] : [], type));
  const choose = h('select', { 'aria-label': 'Kind', onchange: (e) => page.setQuery({ kind: e.target.value }) }, options('all kinds', kinds, kind));
  const hold = button('Hold', () => { held = !held; patch(hold, held ? 'Go on' : 'Hold'); draw(); });
  const part = page.section({
    title: '', cls: 'flush',
    show: (rows) => [h('p.live', badge(state, state === 'live' ? 'good' : 'warn')),
      table(['Time', 'Kind', { label: 'Name', class: 'opt' }, 'Actor', { label: 'Data', class: 'grow' }], rows.map((l) => l.gap ? { key: l.n, class: 'mark', cells: ['', l.gap, '', '', ''] } : {
        key: l.n, href: link(l.actor, tabs[l.kind] ?? ''), cells: [moment(l.time), badge(l.kind, tones[l.kind] ?? 'quiet'), l.name ?? '', address(l.actor), l.left ? h('span.dim', number(l.left) + ' bytes') : l.value === undefined ? '' : body(l.value)],
      }), { none: 'Nothing has happened since this page was opened.', caption: 'Feed' })],
  });
  const draw = () => { if (!held) part.set(list); };
  const add = (lines) => {
    list = latest([...lines.map((l) => ({ ...l, n: n++ })).reverse(), ...list], kept);
    draw();
  };
  const trouble = h('div');
  page.root.append(h('div.head', h('h1', 'Live feed'), h('div.actions', types, choose, hold)), trouble, part.el);
  draw();
  scrape(page.signal).then((s) => patch(types, options('all types', [...s.by('cairn_type_actors_awake', 'type').keys()].sort(), type)))
    .catch(() => { /* without metrics there is no list of types */ });
  (async () => {
    const query = new URLSearchParams({ ...(type ? { type } : {}), ...(kind ? { kinds: kind } : {}) });
    try {
      for await (const e of events('-/changes', { signal: page.signal, query: String(query) })) {
        if (e.event === 'dashboard.open') state = 'live';
        else if (e.event === 'dashboard.lost') {
          state = 'lost';
          const gap = e.hidden ? 'the page was hidden' : 'the connection was lost';
          if (list[0]?.gap !== gap) add([{ gap }]);
        }
        else if (e.event === 'changes') {
          const r = parse(e.data);
          add(r.gap ? [{ gap: number(r.missed) + ' turns left out' }] : r.changes.map((c) => ({
            actor: r, time: r.time, kind: c.kind, name: c.name, value: c.data, left: c.size, size: e.data.length,
          })));
          continue;
        }
        draw();
      }
    } catch (e) {
      if (page.signal.aborted) return;
      state = 'not live';
      draw();
      patch(trouble, fault(e));
    }
  })();
}
