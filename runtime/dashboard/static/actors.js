// The list of actors.

import { h, patch } from './dom.js';
import { actorPath, get, send, unsegment } from './api.js';
import { badge, button, fault, table, time, verb } from './ui.js';
import { address, bytes, keyOf, link, number, parseAddress } from './format.js';
import { parse } from './json.js';
import { scrape } from './metrics.js';

const size = 50;

export default async function actors(page) {
  const q = page.query;
  page.title('Actors');
  const cursors = (q.get('c') ?? '').split('~').filter(Boolean); // those of the pages before this one, and of this one
  const type = h('select', { 'aria-label': 'Type', onchange: (e) => page.setQuery({ type: e.target.value, prefix: '', c: '' }) }, h('option', { value: '' }, 'all types'));
  const prefix = h('input.filter', {
    type: 'search', placeholder: 'key begins with: acme/eu', 'aria-label': 'Key begins with', value: q.get('prefix') ?? '', spellcheck: 'false',
    onchange: (e) => page.setQuery({ prefix: e.target.value, c: '' }),
  });
  const where = h('input.filter.where', {
    type: 'search', placeholder: 'where: size>1MiB state=failed', 'aria-label': 'Conditions', value: q.get('where') ?? '', spellcheck: 'false',
    title: 'Conditions, with spaces or commas between them: state, run, size, updated, created or an attribute; = != < <= > >=; a value, in quotes if it has spaces',
    onchange: (e) => page.setQuery({ where: e.target.value.trim(), c: '' }),
  });
  const sort = h('select', { 'aria-label': 'Order', onchange: (e) => page.setQuery({ sort: e.target.value, c: '' }) });
  const orders = (names) => {
    const all = new Set(['key', 'state', 'size', 'updated', ...names]);
    if (q.get('sort')) all.add(q.get('sort').replace(/^-/, ''));
    patch(sort, h('option', { value: '' }, 'any order'), [...all].flatMap((n) => [h('option', { value: n }, 'by ' + n), h('option', { value: '-' + n }, `by ${n}, descending`)]));
    sort.value = q.get('sort') ?? '';
  };
  orders([]);
  const trouble = h('div');
  const wanted = new URLSearchParams({ limit: size });
  for (const condition of (q.get('where') ?? '').match(/(?:"(?:[^"\\]|\\.)*"|[^\s,])+/g) ?? []) wanted.append('where', condition);
  if (q.get('sort')) wanted.set('sort', q.get('sort'));
  if (q.get('type')) wanted.set('type', q.get('type'));
  for (const part of (q.get('prefix') ?? '').split('/').filter(Boolean)) {
    try { wanted.append('prefix', unsegment(part)); } catch { wanted.append('prefix', part); } // as addresses have it, or as it is
  }
  if (cursors.length) wanted.set('cursor', cursors[cursors.length - 1]);

  const create = verb('Create…', {
    title: 'Create an actor', fields: [{ name: 'address', label: 'Address', placeholder: 'TYPE/KEY', required: true, value: q.get('type') ? q.get('type') + '/' : '' }, { name: 'input', label: 'Input of its creation, as JSON', type: 'area', rows: 4, hint: 'Empty: none.' }],
    run: async (v, reason) => {
      const a = parseAddress(v.address);
      await send('PUT', actorPath(a), { reason, json: v.input.trim() ? parse(v.input) : undefined });
      location.hash = link(a);
    },
  });
  const list = page.section({
    title: '', cls: 'flush',
    load: async (signal) => {
      try {
        const r = await get('actors?' + wanted, { signal });
        patch(trouble);
        list.el.hidden = false;
        return r;
      } catch (e) {
        if (signal.aborted || e.code !== 'invalid_argument') throw e;
        patch(trouble, fault(e));
        list.el.hidden = true;
        return { actors: [] };
      }
    },
    show: (r) => {
      const names = [...new Set(r.actors.flatMap((a) => Object.keys(a.attributes ?? {})))];
      if (document.activeElement !== sort) orders(names);
      return [
        table([{ label: 'Actor', class: 'grow' }, 'State', { label: 'Run', class: 'opt' }, { label: 'Waiting', class: 'num opt' }, { label: 'Messages', class: 'num opt' },
          { label: 'Alarms', class: 'num opt' }, { label: 'Keys', class: 'num opt' }, { label: 'Size', class: 'num' }, { label: 'Changed', class: 'num' }, ...(names.length ? [{ label: 'Attributes', class: 'wraps opt' }] : [])],
        r.actors.map((a) => ({
          key: a.id, href: link(a),
          cells: [h('span.address', h('span.dim', a.type, a.key.length ? '/' : ''), keyOf(a)), badge(a.state), a.run ? [badge(a.run.state), ' ', h('span.dim', a.run.workflow)] : '',
            a.mailbox || h('span.dim', '0'), a.failed_sends ? h('span.bad', `${a.pending_sends} + ${a.failed_sends} failed`) : a.pending_sends || h('span.dim', '0'),
            a.alarms || h('span.dim', '0'), number(a.keys), bytes(a.bytes), time(a.updated), ...(names.length ? [Object.entries(a.attributes ?? {}).map(([n, v], i) => [i ? ' ' : '', h('span.dim', n, '='), String(v.rawJSON ?? v)])] : [])],
        })), { none: 'No such actors.', caption: 'Actors' }),
        r.uncertain ? h('p.warn', 'Left out, because their last commit may be lost: ', r.uncertain.map(address).join(', ')) : null,
        h('div.pager',
          cursors.length ? button('← Back', () => page.setQuery({ c: cursors.slice(0, -1).join('~') })) : null,
          h('span.dim', r.actors.length ? `${cursors.length * size + 1}–${cursors.length * size + r.actors.length}` : ''),
          r.cursor ? button('Next →', () => page.setQuery({ c: [...cursors, r.cursor].join('~') })) : null),
      ];
    },
  });
  page.root.append(h('div.head', h('h1', 'Actors'), h('div.actions', type, prefix, where, sort, create)), trouble, list.el);
  scrape(page.signal).then((s) => {
    const names = [...s.by('cairn_type_actors_awake', 'type').keys()].sort();
    if (q.get('type') && !names.includes(q.get('type'))) names.unshift(q.get('type'));
    patch(type, h('option', { value: '' }, 'all types'), names.map((n) => h('option', { value: n }, n)));
    type.value = q.get('type') ?? '';
  }).catch(() => { /* without metrics there is no list of types */ });
}
