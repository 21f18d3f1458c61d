// The audit log: what operators did, on the whole node or to one actor.

import { h } from './dom.js';
import { actorPath, get } from './api.js';
import { badge, button, json, moment, table } from './ui.js';
import { address, link, number } from './format.js';
import { short } from './json.js';

const size = 50;
const ranges = { 'all times': 0, '1 h': 60, '24 h': 1440, '7 d': 10_080 };

// values shows what a record says about data, in one line that opens to all of it.
function values(r) {
  const known = ['input', 'before', 'after'].filter((name) => r[name] !== undefined && r[name] !== null);
  if (!known.length) return '';
  const show = (box) => known.forEach((name) => box.append(h('h3', name[0].toUpperCase() + name.slice(1)), json(r[name])));
  return h('details', { keep: String(r.id), ontoggle: (e) => { if (e.target.open && e.target.children.length === 1) show(e.target); } }, h('summary', h('code', short(r.input ?? r.after ?? r.before, 60))));
}

// log is a section with the records at a path, the latest first, and the fields that narrow them.
function log(page, path, { title, ofNode }) {
  const q = page.query;
  const cursors = (q.get('c') ?? '').split('~').filter(Boolean);
  const range = ranges[q.get('range')] === undefined ? 'all times' : q.get('range');
  const field = (name, label, placeholder) => h('input.filter', {
    type: 'search', 'aria-label': label, placeholder, value: q.get(name) ?? '', spellcheck: 'false', onchange: (e) => page.setQuery({ [name]: e.target.value.trim(), c: '' }),
  });
  const filters = [ofNode ? field('type', 'Type', 'type') : null, field('verb', 'Verb', 'verb: queue.purge'),
    h('span.segments', Object.keys(ranges).map((r) => button(r, () => page.setQuery({ range: ranges[r] ? r : '', c: '' }), { 'aria-pressed': String(r === range) })))];
  const part = page.section({
    title, cls: 'flush', actions: title ? filters : null,
    load: (signal) => {
      const wanted = new URLSearchParams({ limit: size });
      for (const name of ofNode ? ['type', 'verb'] : ['verb']) if (q.get(name)) wanted.set(name, q.get(name));
      if (ranges[range]) wanted.set('since', new Date(Date.now() - ranges[range] * 60_000).toISOString());
      if (cursors.length) wanted.set('cursor', cursors[cursors.length - 1]);
      return get(path + '?' + wanted, { signal });
    },
    show: (r) => [
      table(['Time', 'Verb', ofNode ? { label: 'Actor', class: 'wraps' } : null, { label: 'Reason', class: 'wraps half' }, { label: 'By', class: 'opt' }, { label: 'Version', class: 'num opt' }, { label: 'Data', class: 'grow half opt' }].filter(Boolean),
        (r.records ?? []).map((x) => ({
          key: String(x.id),
          cells: [moment(x.time), x.damaged ? badge('damaged', 'bad') : badge(x.verb, x.verb === 'actor.destroy' ? 'bad' : 'info'), ofNode ? (x.type ? h('a.row', { href: link(x, 'audit') }, h('span.address', address(x))) : h('span.dim', '–')) : null, x.reason ?? h('span.dim', 'none'),
            [x.principal || x.channel, x.principal ? h('span.dim', ' ', x.channel) : null, x.remote ? h('div.dim', x.remote) : null], x.version ? number(x.version) : '–', values(x)].filter((c) => c !== null),
        })), { none: 'No such records.', caption: 'Audit log' }),
      h('div.pager',
        cursors.length ? button('← Back', () => page.setQuery({ c: cursors.slice(0, -1).join('~') })) : null,
        r.cursor ? button('Next →', () => page.setQuery({ c: [...cursors, r.cursor].join('~') })) : null)],
  });
  return { el: part.el, filters };
}

export default function audit(page) {
  const part = log(page, '-/audit', { title: '', ofNode: true });
  page.root.append(h('div.head', h('h1', 'Audit log'), h('div.actions', part.filters)), part.el);
}

export function auditOfActor(page) {
  page.part.append(log(page, actorPath(page.actor) + 'audit', { title: 'Audit log' }).el);
}
