// Entries of the store: listed by prefix and filter, read, changed and removed.

import { h } from './dom.js';
import { button, dialog, facts, json, moment, reasonOf, say, table, time, verb } from './ui.js';
import { ago, clock, number } from './format.js';
import { typed } from './api.js';
import { parse, short, stringify } from './json.js';

const size = 50;

// keyOf reads a key: a JSON array, or its parts with slashes between them, which are strings.
export function keyOf(text) {
  text = text.trim();
  if (text === '') return [];
  if (text[0] === '[') return typed(text);
  return text.split('/');
}

// stamps say which entries there are, and of which versions. Without that, they are as before, and their values need not be read again.
const stamps = (entries) => stringify(entries.map((e) => [e.key, e.version, e.updated, e.expires ?? null]));

export default function entries(page) {
  let cursors = [];
  const prefix = h('input.filter', { type: 'search', placeholder: 'prefix: users or ["users",7]', 'aria-label': 'Prefix', spellcheck: 'false', value: page.query.get('prefix') ?? '' });
  const where = h('input', { type: 'search', placeholder: 'filter: {"age":{"$gt":18}}', 'aria-label': 'Filter', spellcheck: 'false', value: page.query.get('where') ?? '' });
  const reverse = h('input', { type: 'checkbox' });
  reverse.checked = page.query.get('reverse') === '1';
  const form = h('form.filters', { onsubmit: (e) => { e.preventDefault(); again(); } }, prefix, where, h('label.check', reverse, 'reverse'), h('button', 'List'));
  reverse.onchange = () => again();
  let wanted = { prefix: prefix.value, where: where.value }; // of the list that is shown
  const again = () => {
    cursors = [];
    wanted = { prefix: prefix.value, where: where.value };
    page.setQuery({ prefix: prefix.value, where: where.value, reverse: reverse.checked ? '1' : '' }, true);
    list.refresh();
  };
  let listed = null; // the page that was read last
  const list = page.section({
    title: 'Entries', cls: 'flush', ms: 3000, form, actions: button('New entry…', () => edit(page, null, () => list.refresh())),
    load: async () => {
      const input = { prefix: keyOf(wanted.prefix), where: wanted.where ? typed(wanted.where) : undefined, reverse: reverse.checked || undefined, limit: size, cursor: cursors[cursors.length - 1] };
      const question = stringify(input);
      if (listed?.question === question) {
        const now = await page.call('kv.list', { ...input, keys_only: true });
        const n = listed.entries.length; // a page without values may have more
        if (stamps(now.entries.slice(0, n)) === stamps(listed.entries) && (Boolean(now.cursor) || now.entries.length > n) === Boolean(listed.cursor)) return listed;
      }
      return listed = { ...await page.call('kv.list', input), question };
    },
    show: (r) => [table([{ label: 'Key', class: 'key' }, { label: 'Value', class: 'clip' }, { label: 'Version', class: 'num opt' }, { label: 'Expires', class: 'num opt' }, { label: 'Changed', class: 'num opt' }], r.entries.map((e) => ({
      key: stringify(e.key), selected: chosen === stringify(e.key), onopen: () => open(e.key),
      cells: [h('code', stringify(e.key)), h('code.value', (e.encoding ? e.encoding + ' ' : '') + short(e.value, 80)), number(e.version), e.expires ? ago(e.expires) : '', time(e.updated)],
    })), { none: 'No such entries.', caption: 'Entries' }), h('div.pager',
      cursors.length ? button('← Back', () => { cursors.pop(); list.refresh(); }) : null, r.cursor ? button('Next →', () => { cursors.push(r.cursor); list.refresh(); }) : null)],
  });
  let chosen = page.query.get('key') ?? '';
  let looked = null; // the entry that was read last
  const one = page.section({
    title: 'Entry', cls: 'entry', load: async () => {
      if (!chosen) return {};
      const question = chosen;
      const key = parse(chosen);
      if (looked?.question === question) {
        const [first] = (await page.call('kv.list', { prefix: key, limit: 1, keys_only: true })).entries;
        if (stamps(first && stringify(first.key) === stringify(key) ? [first] : []) === stamps(looked.entry ? [looked.entry] : [])) return looked;
      }
      const [{ entry }, history] = await Promise.all([page.call('kv.get', { key }), page.call('kv.history', { key, limit: 20 }).catch(() => null)]);
      return looked = { question, key, entry, history };
    },
    show: ({ key, entry, history }) => {
      if (!key) return h('p.empty', 'Choose an entry.');
      return [h('p', h('code.address', stringify(key))),
        entry ? [json(entry.value), facts(entry.encoding ? ['Encoding', entry.encoding] : null, ['Version', number(entry.version)], ['Created', clock(entry.created)], ['Changed', clock(entry.updated)], entry.expires ? ['Expires', [clock(entry.expires), ' · ', ago(entry.expires)]] : null)] : h('p.empty', 'There is no such entry.'),
        h('div.actions', button(entry ? 'Edit…' : 'Put…', () => edit(page, entry ?? { key }, done)), entry ? verb('Delete…', {
          danger: true, title: 'Delete ' + stringify(key),
          run: (_, reason) => page.act('kv.commit', { checks: [{ key, version: entry.version }], mutations: [{ op: 'delete', key }] }, reason).then(committed), done,
        }) : null),
        history?.versions.length ? [h('h3', 'History'), table(['Version', 'Op', 'Time', { label: 'Value', class: 'grow' }], history.versions.map((v) => ({ key: v.version, cells: [number(v.version), v.op, moment(v.time), h('code', short(v.value, 60))] })))] : null];
    },
  });
  function open(key) {
    chosen = stringify(key);
    page.setQuery({ key: chosen }, true);
    one.refresh();
    list.render();
  }
  const done = () => { one.refresh(); list.refresh(); };
  page.part.append(h('div.split', list.el, one.el));
}

// committed says what a commit did, or that something else was faster.
export function committed(out) {
  if (!out.ok) throw new Error('The entry was changed meanwhile. Nothing was done: look at it again.');
  return 'Committed as version ' + (out.version ?? '–');
}

// edit changes an entry, if nobody else has meanwhile, or makes one.
function edit(page, entry, done) {
  const exact = entry?.value !== undefined;
  return dialog({
    title: exact ? 'Edit entry' : 'New entry', submit: 'Commit', wide: true,
    fields: [
      entry ? null : { name: 'key', label: 'Key: a JSON array', value: '["users", 7]', required: true },
      { name: 'value', label: 'Value, as JSON', type: 'area', rows: 12, value: exact ? stringify(entry.value, 2) : '{}', required: true },
      { name: 'encoding', label: 'Encoding', type: 'select', value: entry?.encoding ?? '', options: ['', 'text', 'bytes', 'u64', 'integer', 'cbor', 'typed', 'v8'], hint: 'None: a JSON document.' },
      { name: 'ttl', label: 'Seconds to live', type: 'number', min: 0, step: 'any', placeholder: entry?.expires ? 'as it is' : 'for ever', hint: '0: for ever. Empty: by the policy of its scope, or for ever.' },
      { name: 'reason', label: 'Reason', required: true, placeholder: 'ticket 4711' }].filter(Boolean),
    run: async (v) => {
      const key = entry ? entry.key : keyOf(v.key);
      const m = { op: 'put', key, value: typed(v.value), literal: true };
      if (v.encoding) m.encoding = v.encoding;
      if (v.ttl !== '') m.ttl_ms = Math.round(Number(v.ttl) * 1000);
      else if (entry?.expires) m.expires = entry.expires;
      const checks = [{ key, version: exact ? entry.version : 0 }];
      say(committed(await page.act('kv.commit', { checks, mutations: [m] }, reasonOf(v), { create: true })));
      done();
    },
  });
}
