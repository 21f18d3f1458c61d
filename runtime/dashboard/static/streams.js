// The streams of an actor, and the items of one of them as they come.

import { h } from './dom.js';
import { badge, moment, table, time, verb } from './ui.js';
import { bytes, number } from './format.js';
import { body } from './queues.js';

const kept = 200;

export default function streams(page) {
  let chosen = page.query.get('s') ?? '';
  let items = [];
  let next = 0;
  const list = page.section({
    title: 'Streams', cls: 'flush', load: () => page.call('stream.list', {}),
    show: (r) => {
      if (!chosen && r.streams.length) choose(r.streams[0]);
      return table([{ label: 'Stream', class: 'grow' }, 'State', { label: 'First', class: 'num' }, { label: 'Last', class: 'num' }, { label: 'Size', class: 'num' }, { label: 'Changed', class: 'num opt' }, ''], r.streams.map((s) => ({
        key: s.stream, selected: s.stream === chosen, onopen: () => choose(s),
        cells: [s.stream, badge(s.closed ? 'closed' : 'open'), number(s.first), number(s.last), bytes(s.bytes), time(s.updated),
          h('span.verbs', verb('Delete', { small: true, danger: true, title: 'Delete the items of ' + s.stream, run: (_, reason) => page.act('stream.delete', { stream: s.stream }, reason), done: () => { items = []; list.refresh(); } }))],
      })), { none: 'It has no streams.', caption: 'Streams' });
    },
  });
  const tail = page.section({
    title: 'Items', cls: 'flush', ms: 1500,
    load: async () => {
      if (!chosen) return [];
      const from = next;
      const r = await page.call('stream.read', { stream: chosen, after: from, limit: kept });
      if (from === next) {
        items = [...r.items.reverse(), ...items].slice(0, kept);
        next = r.next;
      }
      return items;
    },
    show: (rows) => table([{ label: '#', class: 'num' }, 'Time', { label: 'Value', class: 'grow' }], rows.map((i) => ({ key: i.sequence, cells: [i.sequence, moment(i.time), body(i.value)] })), { none: 'No items.' }),
  });
  function choose(s) {
    chosen = s.stream;
    items = [];
    next = Math.max(0, s.last - kept);
    page.setQuery({ s: chosen }, true);
    tail.refresh();
    list.render();
  }
  page.part.append(list.el, tail.el);
}
