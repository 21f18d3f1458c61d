// The traces that one actor has kept, and its spans as they end.

import { h } from './dom.js';
import { actorPath, events } from './api.js';
import { badge, button, empty, fault, table, time } from './ui.js';
import { address, between, number, span } from './format.js';
import { parse } from './json.js';

export const ranges = { '15 min': 15, '1 h': 60, '24 h': 1440, '7 d': 10_080 };
const pages = 5;
const kept = 5000; // spans that have ended since they were read

// readTraces reads the spans of an actor in a time, or of a trace, up to some pages.
export async function readSpans(read, input) {
  const out = { spans: [], parents: [], damaged: [], dropped: 0, now: '', more: false };
  let cursor;
  for (let i = 0; i < pages; i++) {
    const r = await read('trace.read', { limit: 1000, ...input, cursor });
    out.spans.push(...r.spans);
    out.parents.push(...r.parents ?? []);
    out.damaged.push(...r.damaged ?? []);
    out.dropped = Number(r.dropped ?? 0);
    out.now = r.now;
    cursor = r.cursor;
    if (!cursor) return out;
  }
  out.more = true;
  return out;
}

// group makes traces of spans: the latest first.
export function group(spans) {
  const traces = new Map();
  for (const s of spans) {
    let t = traces.get(s.trace_id);
    if (!t) traces.set(s.trace_id, t = { id: s.trace_id, spans: [], errors: 0, open: 0 });
    t.spans.push(s);
    if (s.status === 'error') t.errors++;
    if (!s.end) t.open++;
  }
  for (const t of traces.values()) {
    const known = new Set(t.spans.map((s) => s.span_id));
    t.root = t.spans.find((s) => !s.parent_id || !known.has(s.parent_id)) ?? t.spans[0];
    t.start = t.spans.reduce((a, s) => between(s.start, a) > 0 ? s.start : a, t.root.start);
    t.end = t.spans.reduce((a, s) => s.end && (!a || between(a, s.end) > 0) ? s.end : a, null);
  }
  return [...traces.values()].sort((a, b) => between(a.start, b.start));
}

// within is what of spans has not ended before a time.
export const within = (list, from) => list.filter((s) => !s.end || Date.parse(s.end) >= from);

// follower follows the spans of one actor of a list as they end: a browser has six connections to a node for all its pages. It is the
// first whose stream has not ended for good; the others are for the page to read now and then. on.span gets each span with its actor.
// on.turn says that the stream began, was lost or left spans out: while it is live, the actor must be read.
export function follower(page, query, on) {
  const over = new Set(); // actors whose stream ended for good, by name
  let list = []; // of name and actor
  let open = null;
  const follow = async (name, a) => {
    const mine = open = { name, end: new AbortController() };
    const signal = AbortSignal.any([page.signal, mine.end.signal]);
    try {
      for await (const e of events(actorPath(a) + 'traces', { signal, query: String(new URLSearchParams(query)) })) {
        if (signal.aborted) return;
        if (e.event === 'span') {
          on.span(parse(e.data), a);
          continue;
        }
        mine.lost = e.event === 'dashboard.lost';
        mine.live = !mine.lost;
        on.turn(a);
      }
    } catch { /* it is read now and then */ }
    if (signal.aborted) return;
    over.add(name);
    open = null;
    on.turn(a);
    choose();
  };
  const choose = () => {
    const next = list.find(([name]) => !over.has(name));
    if (page.signal.aborted || open?.name === next?.[0]) return;
    open?.end.abort();
    open = null;
    if (next) follow(...next);
  };
  return {
    live: () => open?.live ? 1 : 0,
    lost: () => open?.lost,
    set: (actors) => {
      list = actors.map((a) => [`${address(a)} ${a.id ?? ''}`, a]);
      choose();
    },
  };
}

// liveness says what of a list of actors is followed.
export function liveness(tails, all) {
  if (!all) return null;
  const live = tails.live();
  return h('p.live', tails.lost() ? badge('lost', 'warn') : badge(live >= all ? 'live' : live ? `${live} of ${all} actors live` : 'every 30 s', live >= all ? 'good' : 'quiet'));
}

const most = 1500; // spans that are held of an actor among others
const overlap = 10_000; // of two readings, in ms: a span is kept a moment after it has ended

// hold adds a reading to what is held of an actor: its spans by id, the latest of those that have not ended before a time, and the time
// from which the next reading goes on. One that did not come to the end is gone on with where it stopped.
export function hold(of, r, from) {
  const all = [...within([...of.spans.values()], from), ...r.spans.filter((s) => s.end || !of.spans.get(s.span_id)?.end)];
  of.spans = new Map([...new Map(all.map((s) => [s.span_id, s]))].slice(-most));
  if (!r.more) of.upTo = Date.parse(r.now) - overlap;
  else if (r.spans.length) of.upTo = Date.parse(r.spans.at(-1).start);
}

// put adds a span that has ended to what is held of an actor.
export function put(of, s) {
  of.spans.set(s.span_id, s);
  if (of.spans.size > most) of.spans.delete(of.spans.keys().next().value);
}

export function traceTable(traces, actorOf, none) {
  return table([{ label: 'What', class: 'grow' }, { label: 'Actor', class: 'opt' }, { label: 'Spans', class: 'num' }, { label: 'Errors', class: 'num opt' }, { label: 'Took', class: 'num' }, { label: 'Started', class: 'num' }], traces.map((t) => ({
    key: t.id, href: `#/trace/${t.id}?` + new URLSearchParams({ actor: address(actorOf(t)) }),
    cells: [t.root.name, address(actorOf(t)), number(t.spans.length), t.errors ? h('span.bad', number(t.errors)) : number(0), t.open ? h('span.info', 'open') : t.end ? span(between(t.start, t.end)) : '–', time(t.start)],
  })), { none, caption: 'Traces' });
}

export default function spans(page) {
  const range = page.query.get('range') ?? '1 h';
  const errors = page.query.get('errors') === '1';
  const choose = Object.keys(ranges).map((r) => button(r, () => page.setQuery({ range: r }), { 'aria-pressed': String(r === range) }));
  const bad = button('errors only', () => page.setQuery({ errors: errors ? '' : '1' }), { 'aria-pressed': String(errors) });
  const since = () => Date.now() - ranges[range] * 60_000;
  let state = 'opening';
  let last = null; // what was read
  const ended = new Map(); // what has ended since, by id
  const list = page.section({
    title: 'Traces', cls: 'flush', ms: 60_000, actions: [h('span.segments', choose), bad], // for what is open, and the times
    load: async () => {
      last = await readSpans(page.call, { start: new Date(since()).toISOString(), errors: errors || undefined });
      for (const s of last.spans) if (s.end) ended.delete(s.span_id);
      return last;
    },
    show: (r) => [h('p.live', badge(state, state === 'live' ? 'good' : 'warn')),
      traceTable(group(within([...r.spans.filter((s) => !ended.has(s.span_id)), ...ended.values()], since())), () => page.actor, 'No traces of that time.'),
      r.more ? empty('The first 5,000 spans are shown: choose a shorter time.') : null,
      r.dropped ? h('p.warn', `${number(r.dropped)} spans of that time are missing, because there were too many.`) : null,
      r.damaged.length ? h('p.bad', 'Cannot be read: ', r.damaged.join(', ')) : null],
  });
  page.part.append(list.el);
  const draw = () => { if (last) list.set(last); };
  (async () => {
    try {
      for await (const e of events(actorPath(page.actor) + 'traces', { signal: page.signal, query: errors ? 'errors=true' : '' })) {
        if (e.event === 'dashboard.open') state = 'live';
        else if (e.event === 'dashboard.lost') state = 'lost';
        else if (e.event === 'span') {
          const s = parse(e.data);
          ended.set(s.span_id, s);
          if (ended.size > kept) ended.delete(ended.keys().next().value);
        }
        if (e.event === 'dashboard.open' || e.event === 'cairn.gap') list.refresh(); // what ended before, or was left out
        draw();
      }
    } catch (e) {
      if (page.signal.aborted) return;
      state = 'not live';
      draw();
      list.el.append(fault(e));
    }
  })();
}
