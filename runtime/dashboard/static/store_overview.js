// The store as a whole: entries, scopes, branches, indexes and tokens.

import { h } from './dom.js';
import { badge, dialog, facts, table, time, verb } from './ui.js';
import { bytes, clock, link, number, span } from './format.js';
import { parse, stringify } from './json.js';

const day = 86_400_000;

export default function overview(page) {
  const counts = page.section({
    title: 'Store', ms: 5000,
    load: async () => {
      const [count, scopes, indexes] = await Promise.all([page.call('kv.count', { prefix: [] }), page.call('kv.scopes', { limit: 100 }), page.call('kv.indexes', {})]);
      const branches = await page.call('kv.branches', {}).catch(() => ({ branches: [] })); // not for a token with a prefix
      return { count, scopes: scopes.scopes, indexes: indexes.indexes, branches: branches.branches };
    },
    show: (r) => {
      scopes.set(r.scopes);
      indexes.set(r.indexes);
      branches.set(r.branches);
      return facts(['Entries', number(r.count.count) + (r.count.cursor ? ' and more' : '')], ['Scopes', number(r.scopes.length)], ['Search indexes', number(r.indexes.length)], ['Branches', number(r.branches.length)]);
    },
  });
  const sample = page.section({
    title: 'Some entries', ms: 0, cls: 'flush', load: () => page.call('kv.sample', { prefix: [], n: 8, seed: 1, keys_only: true }),
    show: (r) => table([{ label: 'Key', class: 'grow' }, { label: 'Changed', class: 'num' }], r.entries.map((e) => ({
      key: stringify(e.key), href: link(page.actor, 'store/entries') + '?' + new URLSearchParams({ key: stringify(e.key) }), cells: [h('code', stringify(e.key)), time(e.updated)],
    })), { none: 'The store is empty.' }),
  });
  const bound = (n, max, f) => max ? `${f(n)} of ${f(max)}` : f(n);
  const scopes = page.section({
    title: 'Scopes', cls: 'flush',
    show: (list) => table([{ label: 'Prefix', class: 'grow' }, { label: 'Keys', class: 'num' }, { label: 'Size', class: 'num' }, { label: 'Groups', class: 'num opt' }, { label: 'Policy', class: 'opt' }], list.map((s) => ({
      key: stringify(s.prefix), cells: [h('code', stringify(s.prefix)), bound(s.keys, s.max_keys, number), bound(s.bytes, s.max_bytes, bytes), s.max_groups || s.count_groups ? bound(s.groups, s.max_groups, number) : '–',
        [s.read_only ? badge('read_only') : null, ' ', [s.log ? 'log' : '', s.keep_versions ? `${s.keep_versions} versions` : '', s.keep_for_ms ? `versions for ${span(s.keep_for_ms)}` : '', s.default_ttl_ms ? `entries live ${span(s.default_ttl_ms)}` : '', s.declared ? 'by the code' : ''].filter(Boolean).join(', ')]],
    })), { none: 'No scopes.' }),
  });
  const indexes = page.section({ title: 'Indexes', cls: 'flush', show: (list) => table([{ label: 'Prefix', class: 'grow' }, 'State', { label: 'Entries', class: 'num' }], list.map((x) => ({ key: stringify(x.prefix), cells: [h('code', stringify(x.prefix)), badge(x.status), number(x.documents)] })), { none: 'No search indexes.' }) });
  const branches = page.section({
    title: 'Branches', cls: 'flush',
    show: (list) => table([{ label: 'Branch', class: 'grow' }, 'From', { label: 'Version', class: 'num' }, { label: 'Made', class: 'num' }], list.map((b) => ({ key: b.branch, cells: [b.branch, b.from || 'the store', number(b.version), time(b.created)] })), { none: 'No branches.' }),
  });
  const tokens = page.section({
    title: 'Tokens', cls: 'flush', ms: 10_000, load: () => page.call('token.list'),
    actions: verb('New token…', {
      title: 'New token for this store', submit: 'Make',
      fields: [{ name: 'label', label: 'Label', placeholder: 'import' }, { name: 'rights', label: 'Rights', type: 'select', value: 'read', options: ['read', 'read,watch', 'write', 'read,write', 'read,write,watch'] },
        { name: 'prefix', label: 'Prefix, as JSON', placeholder: '["user"]', hint: 'Empty: all keys.' }, { name: 'days', label: 'Days until it expires', type: 'number', min: 0, value: '30', hint: '0: never.' }],
      run: async (v, reason) => {
        const made = await page.act('token.create', { rights: v.rights.split(','), label: v.label || undefined, prefix: v.prefix ? parse(v.prefix) : undefined, ttl_ms: Number(v.days) ? Number(v.days) * day : undefined }, reason);
        dialog({ title: 'The token', text: 'It is shown once.', submit: 'Close', body: h('p', h('code.secret', made.token)), run: async () => {} });
      },
      done: () => tokens.refresh(),
    }),
    show: (r) => table(['Id', 'Rights', { label: 'Prefix', class: 'opt' }, { label: 'Label', class: 'grow' }, { label: 'Expires', class: 'num opt' }, ''], r.tokens.map((t) => ({
      key: t.id, cells: [h('code', t.id), t.rights.join(', '), h('code', t.prefix ? stringify(t.prefix) : 'all'), t.label ?? '', t.expires ? clock(t.expires) : 'never',
        h('span.verbs', verb('Revoke', { small: true, danger: true, title: 'Revoke the token ' + t.id, run: (_, reason) => page.act('token.revoke', { id: t.id }, reason), done: () => tokens.refresh() }))],
    })), { none: 'No tokens.' }),
  });
  page.part.append(h('div.columns', h('div.part', counts.el, scopes.el, indexes.el, branches.el), h('div.part', sample.el, tokens.el)));
}
