// One trace as a waterfall: over the actors that are known to take part.

import { h, patch } from './dom.js';
import { call, get } from './api.js';
import { badge, button, facts, fault, json, moment, note, say } from './ui.js';
import { address, between, link, micros, number, parseAddress, span } from './format.js';
import { follower, liveness, readSpans } from './spans.js';

const most = 10_000; // spans that are read
const rows = 2000; // that are shown

export default async function trace(page) {
  const id = page.path[0] ?? '';
  page.title('Trace ' + id.slice(0, 8));
  page.crumbs(['Traces', '#/traces'], [id.slice(0, 16) + '…']);
  const actors = new Map(page.query.getAll('actor').map((a) => [a, parseAddress(a)]));
  const spans = new Map(); // by id
  let now = ''; // the latest that came in
  const later = (t) => { if (!now || between(now, t) > 0) now = t; };
  const dropped = new Map(); // spans, by actor
  const missing = () => [...dropped.values()].reduce((n, m) => n + m, 0);
  const damaged = new Set(); // keys of spans that cannot be read
  const unread = new Map(); // errors, by actor that could not be read; that of the node has no name
  let chosen = '';
  const full = () => spans.size >= most;
  const detail = h('div.detail');
  const put = (s, a) => {
    later(s.end ?? s.start);
    if (s.end || !spans.get(s.span_id)?.end) spans.set(s.span_id, { ...s, actor: address(a) }); // it may have ended since it was read
  };
  const tails = follower(page, { trace_id: id }, {
    span: (s, a) => { if (!full() || spans.has(s.span_id)) put(s, a); view.set([...spans.values()]); },
    turn: async (a) => {
      if (tails.live() && !full()) await read(a); // what ended before, or was left out
      view.set([...spans.values()]);
    },
  });
  const read = async (a) => {
    try {
      const r = await readSpans((name, input) => call(a, name, input, { signal: page.signal }), { trace_id: id });
      for (const s of r.spans) put(s, a);
      later(r.now);
      dropped.set(address(a), r.dropped);
      for (const key of r.damaged) damaged.add(`${address(a)} ${key}`);
      unread.delete(address(a));
      unread.delete('');
    } catch (e) {
      unread.set(e.status ? address(a) : '', e); // one that does not answer is the node
    }
  };
  const view = page.section({
    title: 'Waterfall', cls: 'flush', ms: 30_000, // for what is open, and for actors that are not followed
    load: async () => {
      for (const a of actors.values()) if (!full()) await read(a);
      tails.set([...actors.values()]);
      return [...spans.values()];
    },
    show: (list) => [liveness(tails, actors.size), missing() || damaged.size ? h('p.warn', missing() ? `${number(missing())} spans of that time are missing, because there were too many. ` : '', damaged.size ? 'Cannot be read: ' + [...damaged].join(', ') : '') : null,
      [...unread].map(([a, e]) => h('p.bad', a ? [h('a', { href: link(parseAddress(a)) }, a), ' cannot be read: '] : null, e.message)), waterfall(list, now, chosen, (s) => { chosen = s.span_id; view.render(); patch(detail, details(s, now)); })],
    actions: button('Find in other actors', () => find(), {}),
  });
  // find lets the node look in all actors, up to a second a page.
  async function find() {
    let asked = 0;
    const before = actors.size;
    let cursor;
    do {
      const r = await get('-/traces?' + new URLSearchParams({ trace: id, ...(cursor ? { cursor } : {}) }), { signal: page.signal });
      for (const s of r.spans) {
        put(s, s);
        actors.set(address(s), { type: s.type, key: s.key });
      }
      asked += r.actors;
      cursor = r.cursor;
    } while (cursor && !full());
    const q = new URLSearchParams();
    for (const a of actors.keys()) q.append('actor', a);
    history.replaceState(null, '', `#/trace/${id}?${q}`);
    say(`${actors.size - before} more of ${asked} actors take part`);
    view.refresh();
  }
  page.root.append(h('div.head', h('h1', 'Trace ', h('code', id))), view.el, detail);
  if (!actors.size) find().catch((e) => { if (!page.signal.aborted) patch(detail, fault(e)); });
}

// order puts spans in the order of their tree, with their depth. The first of spans that are each other's parents is a root.
export function order(list) {
  const early = (a, b) => between(b.start, a.start);
  const known = new Map(list.map((s) => [s.span_id, s]));
  const children = new Map();
  for (const s of list) {
    const up = known.has(s.parent_id) ? s.parent_id : '';
    if (!children.has(up)) children.set(up, []);
    children.get(up).push(s);
  }
  const out = [];
  const seen = new Set();
  const walk = (list, depth) => {
    for (const s of list.sort(early)) {
      if (seen.has(s.span_id)) continue;
      seen.add(s.span_id);
      out.push({ s, depth, orphan: Boolean(s.parent_id) && !known.has(s.parent_id) });
      walk(children.get(s.span_id) ?? [], depth + 1);
    }
  };
  walk(children.get('') ?? [], 0);
  walk([...list], 0);
  return out;
}

function waterfall(list, now, chosen, open) {
  if (!list.length) return h('p.empty', 'No actor that is asked has spans of this trace.');
  const from = list.reduce((a, s) => Math.min(a, micros(s.start)), Infinity);
  const to = list.reduce((a, s) => Math.max(a, micros(s.end ?? now)), from + 0.001);
  const at = (ms) => (ms - from) / (to - from) * 100;
  const lanes = new Map();
  const names = [...new Set(list.map((s) => s.actor))];
  names.forEach((a, i) => lanes.set(a, i % 6));
  const ticks = [0, 0.25, 0.5, 0.75, 1];
  return [
    h('div.lanes', names.map((a) => h('a', { href: link(parseAddress(a), 'traces'), class: 'lane l' + lanes.get(a) }, a)), h('span.dim', `${number(list.length)} spans over ${span(to - from)}`, list.length > rows ? `; the first ${number(rows)} are shown` : '')),
    h('div.waterfall', { role: 'table', 'aria-label': 'Spans' },
      h('div.wf-row.wf-head', { role: 'row' }, h('span', { role: 'columnheader' }, 'Span'), h('span.wf-axis', { role: 'columnheader' }, ticks.map((t) => h('i', { style: { left: t * 100 + '%' } }, span((to - from) * t))))),
      order(list).slice(0, rows).map(({ s, depth, orphan }) => h('div.wf-row', { key: s.span_id, role: 'row', class: s.span_id === chosen ? 'chosen' : null, onclick: () => open(s) },
        h('span.wf-name', { role: 'cell', style: { 'padding-left': 8 + Math.min(depth, 12) * 14 + 'px' } },
          h('button.row', { type: 'button', onclick: (e) => { e.stopPropagation(); open(s); } }, h('i.dot', { class: 'l' + lanes.get(s.actor), title: s.actor }), s.name),
          orphan ? h('span.gap', { title: 'The parent is in another actor, outside, or was not kept.' }, ' ↰') : null,
          s.links?.length ? h('span.gap', { title: 'It has links' }, ' ⇢') : null),
        h('span.wf-bar', { role: 'cell' },
          h('b', { class: ['l' + lanes.get(s.actor), s.status === 'error' ? 'error' : '', s.end ? '' : 'open'].join(' '), style: { left: at(micros(s.start)) + '%', width: Math.max(0.15, at(micros(s.end ?? now)) - at(micros(s.start))) + '%' } }),
          (s.events ?? []).map((e) => h('u', { style: { left: at(micros(e.time)) + '%' }, title: e.name })),
          h('em', { class: at(micros(s.start)) > 70 ? 'left' : '', style: at(micros(s.start)) > 70 ? { right: 100 - at(micros(s.start)) + '%' } : { left: at(micros(s.end ?? now)) + '%' } }, s.end ? span(between(s.start, s.end)) : 'open')))))];
}

function details(s, now) {
  return h('section.panel', h('header', h('h2', s.name), s.status ? badge(s.status) : null, s.end ? null : badge('open')),
    h('div.body', s.message ? h('div.fault', s.message) : null,
      facts(['Actor', h('a', { href: link(parseAddress(s.actor)) }, s.actor)], ['Kind', s.kind], ['Began', moment(s.start)], ['Took', s.end ? span(between(s.start, s.end)) : 'open for ' + span(between(s.start, now))],
        ['Span', h('code', s.span_id)], s.parent_id ? ['Parent', [h('code', s.parent_id), s.remote ? ' of another actor or process' : '']] : null, s.scope ? ['Made by', s.scope] : null),
      s.attributes && Object.keys(s.attributes).length ? [h('h3', 'Attributes'), json(s.attributes)] : null,
      s.events?.length ? [h('h3', 'Events'), json(s.events)] : null,
      s.links?.length ? [h('h3', 'Links'), s.links.map((l) => note(h('a', { href: `#/trace/${l.trace_id}?` + new URLSearchParams({ actor: s.actor }) }, 'trace ', h('code', l.trace_id)), ' span ', h('code', l.span_id)))] : null));
}
