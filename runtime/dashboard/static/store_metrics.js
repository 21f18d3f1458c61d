// What the store of this actor holds and does.

import { h } from './dom.js';
import { actorPath, get } from './api.js';
import { facts, table } from './ui.js';
import { amount, bytes, number, seconds } from './format.js';
import { spark } from './chart.js';

const period = 2000;
const shown = 150;

export default function metrics(page) {
  const points = [];
  const part = page.section({
    title: 'Now', ms: period,
    load: async () => {
      const [m, status] = await Promise.all([get(actorPath(page.actor) + 'keyval/api/metrics', { signal: page.signal }), page.get('').catch(() => null)]);
      points.push({ at: Date.now(), m, status });
      if (points.length > shown + 1) points.shift();
      charts.set(points);
      operations.set(m);
      return { m, status };
    },
    show: ({ m, status }) => facts(['Entries', number(m.storage.entries)], m.storage.sizeBytes !== undefined ? ['Size of the entries', bytes(m.storage.sizeBytes)] : null, status ? ['Size of the actor', bytes(status.bytes)] : null,
      status ? ['Version', number(status.version)] : null, ['Messages in its queue', `${number(m.queue.pending)} pending, ${number(m.queue.processing)} processing, ${number(m.queue.dlq)} dead`],
      ['Operations', number(m.operations.totals.operations)], ['Errors', number(m.operations.totals.errors)]),
  });
  const chart = (title, f, format) => {
    const list = points.map((p) => [p.at, f(p)]);
    const to = list.length ? list[list.length - 1][0] : Date.now();
    const v = list.length ? list[list.length - 1][1] : NaN;
    return h('figure.card', { key: title }, h('figcaption', h('span', title), h('strong', format(v))), spark([{ points: list }], { format, from: Math.min(to - 60_000, points[0]?.at ?? to), to }));
  };
  const charts = page.section({
    title: 'Since this page is open', cls: 'bare',
    show: () => h('div.cards', chart('Entries', (p) => p.m.storage.entries, number), chart('Size of the actor', (p) => p.status?.bytes ?? NaN, bytes), chart('Version', (p) => p.status?.version ?? NaN, number), chart('Messages pending', (p) => p.m.queue.pending, number)),
  });
  const operations = page.section({
    title: 'Operations', cls: 'flush',
    show: (m) => table([{ label: 'Operation', class: 'grow' }, { label: 'Count', class: 'num' }, { label: 'Errors', class: 'num' }, { label: 'Mean time', class: 'num' }], Object.entries(m.operations.operations).sort().map(([name, o]) => ({
      key: name, cells: [name.replaceAll('_', ' '), amount(o.count), o.errors ? h('span.bad', number(o.errors)) : number(0), o.avgLatencyMs === undefined ? '–' : seconds(o.avgLatencyMs / 1000)],
    })), { none: 'None yet.' }),
  });
  page.part.append(charts.el, part.el, operations.el, h('p.note', 'Operations are counted over the interface of KeyVal. Messages are those of its queue, kv, over all interfaces.'));
}
