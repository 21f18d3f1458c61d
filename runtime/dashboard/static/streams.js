// The streams of an actor, and the items of one of them as they come.

import { h } from './dom.js';
import { actorPath, events, segment } from './api.js';
import { parse } from './json.js';
import { badge, fault, moment, table, time, verb } from './ui.js';
import { bytes, latest, number } from './format.js';
import { body } from './queues.js';

const kept = 200;

export default function streams(page) {
  let chosen = page.query.get('s') ?? '';
  let items = [];
  let state = 'opening';
  let begun = false;
  let running = new AbortController();
  const list = page.section({
    title: 'Streams', cls: 'flush', load: () => page.call('stream.list', {}),
    show: (r) => {
      const first = r.streams.find((x) => x.stream === chosen) ?? r.streams[0];
      if (first && !begun) { begun = true; queueMicrotask(() => choose(first)); }
      return table([{ label: 'Stream', class: 'grow' }, 'State', { label: 'First', class: 'num opt' }, { label: 'Last', class: 'num' }, { label: 'Size', class: 'num' }, { label: 'Changed', class: 'num opt' }, ''], r.streams.map((s) => ({
        key: s.stream, selected: s.stream === chosen, onopen: () => choose(s),
        cells: [s.stream, badge(s.closed ? 'closed' : 'open'), number(s.first), number(s.last), bytes(s.bytes), time(s.updated),
          h('span.verbs', verb('Delete', { small: true, danger: true, title: 'Delete the items of ' + s.stream, run: (_, reason) => page.act('stream.delete', { stream: s.stream }, reason), done: () => { items = []; tail.set(items); list.refresh(); } }))],
      })), { none: 'It has no streams.', caption: 'Streams' });
    },
  });
  const tail = page.section({
    title: 'Items', cls: 'flush',
    show: (rows) => [!chosen ? null : h('p.live', badge(state, state === 'live' ? 'good' : 'warn')), table([{ label: '#', class: 'num' }, 'Time', { label: 'Value', class: 'grow' }], rows.map((i) => ({
      key: i.sequence, cells: [i.sequence, moment(i.time), body(i.value)],
    })), { none: 'No items.', caption: 'Items' })],
  });
  async function choose(s) {
    chosen = s.stream;
    running.abort();
    running = new AbortController();
    const signal = AbortSignal.any([page.signal, running.signal]);
    items = [];
    state = 'opening';
    page.setQuery({ s: chosen }, true);
    tail.set(items);
    list.render();
    try {
      for await (const e of events(actorPath(page.actor) + 'streams/' + segment(chosen), { signal, query: 'after=' + Math.max(0, s.last - kept) })) {
        if (e.event === 'dashboard.open') state = 'live';
        else if (e.event === 'dashboard.lost') state = 'lost';
        else if (e.event === 'item') items = latest([{ sequence: e.id.split('@')[0], time: e.time, value: parse(e.data), size: e.data.length }, ...items], kept);
        tail.set(items);
      }
      if (!signal.aborted) state = 'closed';
      tail.set(items);
    } catch (e) {
      if (signal.aborted) return;
      state = 'not live';
      tail.set(items);
      tail.el.append(fault(e));
    }
  }
  tail.set(items);
  page.part.append(list.el, tail.el);
}
