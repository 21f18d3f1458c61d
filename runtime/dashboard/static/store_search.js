// Searching entries, and the indexes that it needs.

import { h } from './dom.js';
import { badge, table, time, verb } from './ui.js';
import { link, number, plain } from './format.js';
import { typed } from './api.js';
import { parse, short, stringify } from './json.js';
import { keyOf } from './store_entries.js';

export default function search(page) {
  const prefix = h('select', { 'aria-label': 'Index' });
  const query = h('input.filter', { type: 'search', placeholder: 'apple OR "plum jam" -pear', 'aria-label': 'Query', value: page.query.get('find') ?? '' });
  const where = h('input', { type: 'search', placeholder: 'filter: {"year":2025}', 'aria-label': 'Filter', spellcheck: 'false' });
  const form = h('form.filters', { onsubmit: (e) => { e.preventDefault(); page.setQuery({ find: query.value }, true); found.refresh(); } }, prefix, query, where, h('button', { class: 'primary' }, 'Search'));
  const found = page.section({
    title: 'Search', cls: 'flush', ms: 0, form,
    load: async () => query.value && prefix.value ? page.call('kv.search', { prefix: parse(prefix.value), query: query.value, where: where.value ? typed(where.value) : undefined, limit: 50, snippet: 12 }) : null,
    show: (r) => r ? [r.partial ? h('p.warn', 'The index is being built: some entries may be missing.') : null, table([{ label: 'Score', class: 'num' }, 'Key', { label: 'Text', class: 'grow' }, { label: 'Changed', class: 'num opt' }], r.entries.map((e) => ({
      key: stringify(e.key), href: link(page.actor, 'store/entries') + '?' + new URLSearchParams({ key: stringify(e.key) }),
      cells: [plain(e.score).toPrecision(3), h('code', stringify(e.key)), e.snippet?.length ? e.snippet.map((p) => p.match ? h('mark', p.text) : p.text) : h('code', short(e.value, 80)), time(e.updated)],
    })), { none: 'Nothing matches.', caption: 'Matches' })] : h('p.empty', 'Words must all be there; "phrases", prefix*, OR, -not, field:word.'),
  });
  const indexes = page.section({
    title: 'Indexes', cls: 'flush', load: () => page.call('kv.indexes', {}),
    actions: verb('New index…', {
      title: 'New search index', submit: 'Make',
      fields: [{ name: 'prefix', label: 'Prefix', placeholder: 'notes or ["notes"]', required: true }, { name: 'fields', label: 'Fields, with commas between them', placeholder: 'title, author.name', required: true },
        { name: 'tokenizer', label: 'Tokenizer', type: 'select', value: 'unicode61', options: ['unicode61', 'porter', 'ascii', 'trigram'] }],
      run: (v, reason) => page.act('kv.set_index', { prefix: keyOf(v.prefix), fields: v.fields.split(',').map((path) => ({ path: path.trim() })), tokenizer: v.tokenizer }, reason, { create: true }), done: () => indexes.refresh(),
    }),
    show: (r) => {
      const now = prefix.value;
      prefix.replaceChildren(...r.indexes.map((x) => h('option', { value: stringify(x.prefix) }, stringify(x.prefix))));
      if (now) prefix.value = now;
      else if (query.value && r.indexes.length) found.refresh();
      return table([{ label: 'Prefix', class: 'grow' }, 'State', 'Fields', { label: 'Tokenizer', class: 'opt' }, { label: 'Entries', class: 'num' }, ''], r.indexes.map((x) => ({
        key: stringify(x.prefix), cells: [h('code', stringify(x.prefix)), badge(x.status), x.fields.map((f) => f.path + (f.weight && f.weight !== 1 ? ` ×${f.weight}` : '')).join(', '), x.tokenizer, number(x.documents),
          h('span.verbs', verb('Remove', { small: true, danger: true, title: 'Remove the index of ' + stringify(x.prefix), run: (_, reason) => page.act('kv.remove_index', { prefix: x.prefix }, reason), done: () => indexes.refresh() }))],
      })), { none: 'No search indexes. One is needed to search.' });
    },
  });
  page.part.append(found.el, indexes.el);
}
