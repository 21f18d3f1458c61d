// Recent traces of the node: of the actors that have changed last.

import { h, patch } from './dom.js';
import { call, get } from './api.js';
import { button, fault } from './ui.js';
import { address, between, parseAddress, link } from './format.js';
import { scrape } from './metrics.js';
import { follower, group, hold, liveness, put, ranges, readSpans, traceTable } from './spans.js';

const asked = 20;

export default function traces(page) {
  const range = page.query.get('range') ?? '15 min';
  const errors = page.query.get('errors') === '1';
  const type = h('select', { 'aria-label': 'Type', onchange: (e) => page.setQuery({ type: e.target.value }) }, h('option', { value: '' }, 'all types'));
  const trouble = h('div');
  const actor = h('input.filter', { type: 'search', placeholder: 'TYPE/KEY, or id of a trace', 'aria-label': 'Actor or trace', spellcheck: 'false' });
  const form = h('form', { onsubmit: (e) => { e.preventDefault(); try { location.hash = /^[0-9a-f]{32}$/.test(actor.value.trim()) ? '#/trace/' + actor.value.trim() : link(parseAddress(actor.value), 'traces'); } catch (err) { patch(trouble, fault(err)); } } }, actor);
  const held = new Map(); // by actor, its spans by id, and the time up to which they were read
  const idOf = (a) => address(a) + ' ' + a.id;
  const tails = follower(page, errors ? { errors: true } : {}, {
    span: (s, a) => {
      const of = held.get(idOf(a));
      if (of) put(of, s);
      draw();
    },
    turn: async (a) => {
      if (tails.live()) await read(a, since(), page.signal); // what ended before, or was left out
      draw();
    },
  });
  const since = () => Date.now() - ranges[range] * 60_000;
  let looked = null; // the actors that were looked at
  const draw = () => { if (looked) list.set(looked); };
  const read = async (a, from, signal) => {
    const of = held.get(idOf(a)) ?? { spans: new Map(), upTo: from };
    const r = await readSpans((name, input) => call(a, name, input, { signal }), { start: new Date(Math.max(of.upTo, from)).toISOString(), errors: errors || undefined, limit: 300 }).catch(() => null);
    if (!r) return;
    hold(of, r, from);
    held.set(idOf(a), of);
  };
  const list = page.section({
    title: '', cls: 'flush', ms: 30_000, // for what is open, and for actors that are not followed
    load: async (signal) => {
      const ask = (sort) => get('actors?' + new URLSearchParams({ limit: 200, ...sort, ...(page.query.get('type') ? { type: page.query.get('type') } : {}) }), { signal });
      const r = await ask({ sort: '-updated' }).catch((e) => { // in steps of a minute, and only with the listing index
        if (e.code !== 'failed_precondition') throw e;
        return ask();
      });
      const some = r.actors.sort((a, b) => between(a.updated, b.updated)).slice(0, asked);
      const from = since();
      for (let i = 0; i < some.length; i += 4) await Promise.all(some.slice(i, i + 4).map((a) => read(a, from, signal)));
      const shown = new Set(some.map(idOf));
      for (const id of held.keys()) if (!shown.has(id)) held.delete(id); // others are looked at now
      tails.set(some);
      return looked = some;
    },
    show: (some) => [liveness(tails, some.length),
      traceTable(group(some.flatMap((a) => [...held.get(idOf(a))?.spans.values() ?? []].map((s) => ({ ...s, actor: a })))).slice(0, 100), (t) => t.root.actor, 'No traces of that time.'),
      some.length ? h('p.note', `Of the ${some.length} actors that have changed last. An actor's own page has all of its traces.`) : null],
  });
  page.root.append(h('div.head', h('h1', 'Traces'), h('div.actions', form, type,
    h('span.segments', Object.keys(ranges).map((r) => button(r, () => page.setQuery({ range: r }), { 'aria-pressed': String(r === range) }))),
    button('errors only', () => page.setQuery({ errors: errors ? '' : '1' }), { 'aria-pressed': String(errors) }))), trouble, list.el);
  scrape(page.signal).then((s) => {
    patch(type, h('option', { value: '' }, 'all types'), [...s.by('cairn_type_actors_awake', 'type').keys()].sort().map((n) => h('option', { value: n }, n)));
    type.value = page.query.get('type') ?? '';
  }).catch(() => { /* without metrics there is no list of types */ });
}
