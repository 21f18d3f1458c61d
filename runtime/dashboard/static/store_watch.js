// Entries as they change.

import { h, patch } from './dom.js';
import { actorPath, events } from './api.js';
import { badge, button, fault, table } from './ui.js';
import { clock, latest, plain } from './format.js';
import { parse, short, stringify } from './json.js';
import { keyOf } from './store_entries.js';

const kept = 300;
const most = 4_000_000; // characters that are read of what was missed

export default function watch(page) {
  const prefix = h('input.filter', { type: 'search', placeholder: 'prefix: users or ["users"]; empty is all', 'aria-label': 'Prefix', spellcheck: 'false', value: page.query.get('prefix') ?? '' });
  const form = h('form.filters', { onsubmit: (e) => { e.preventDefault(); page.setQuery({ prefix: prefix.value }, true); start(); } }, prefix, h('button', 'Watch'));
  let list = [];
  let state = 'opening';
  let n = 0;
  let running = new AbortController();
  const part = page.section({
    title: 'Changes', cls: 'flush', form, actions: button('Clear', () => { list = []; part.set(list); }),
    show: (rows) => [h('p.live', badge(state, state === 'live' ? 'good' : 'warn')), table(['Time', { label: 'Version', class: 'num' }, { label: 'Key', class: 'key' }, { label: 'Value', class: 'clip' }], rows.map((c) => c.gap ? { key: c.n, class: 'mark', cells: ['', '', c.gap, ''] } : ({
      key: c.n, class: c.entry ? null : 'gone', cells: [c.at, c.version, h('code', stringify(c.key)), c.entry ? h('code', short(c.entry.value, 100)) : h('span.bad', 'removed')],
    })), { none: 'No change yet.', caption: 'Changes' })],
  });
  const trouble = h('div');
  async function start() {
    running.abort();
    running = new AbortController();
    const signal = AbortSignal.any([page.signal, running.signal]);
    let told; // the version up to which changes are shown
    let life; // of the actor that has it
    let behind = false; // changes after told were not shown, because catchUp has failed
    let caught = new Map(); // the versions that catchUp has shown, by key: the stream may bring them, and earlier ones, as well
    const id = (e) => stringify([e.key, e.version]);
    const show = (changes, size) => { list = latest([...changes.map((c) => ({ ...c, n: n++, at: clock(Date.now()), size: size / changes.length })).reverse(), ...list], kept); };
    list = [];
    patch(trouble);
    try {
      part.set(list);
      const watched = keyOf(prefix.value);
      // catchUp shows what has changed since the stream before, as far as it is still there.
      const catchUp = async () => {
        const now = await page.call('kv.watch', { keys: [{ key: [...watched, ''] }] }, { signal }).catch((e) => {
          if (e.code === 'not_found') return { version: 0 }; // it may come
          throw e;
        });
        const since = now.life === life ? told : 0;
        const missed = [];
        let cursor;
        let size = 0;
        if (told !== undefined && plain(now.version) > since) {
          do {
            const r = await page.call('kv.list', { prefix: watched, where: { $version: { $gt: since } }, limit: kept, cursor }, { signal });
            missed.push(...r.entries);
            size += stringify(r.entries).length;
            cursor = r.cursor;
          } while (cursor && missed.length < kept && size < most);
        }
        missed.sort((a, b) => plain(a.version) - plain(b.version));
        const shown = new Set(list.filter((c) => c.entry).map((c) => id(c.entry)));
        show(missed.filter((e) => !shown.has(id(e))).map((e) => ({ key: e.key, entry: e, version: e.version })), size);
        if (cursor) list = [{ n: n++, gap: 'more has changed than is shown' }, ...list];
        caught = new Map(missed.map((e) => [stringify(e.key), plain(e.version)]));
        behind = false;
        told = plain(now.version);
        life = now.life;
      };
      for await (const e of events(actorPath(page.actor) + 'kv-watch', { signal, method: 'POST', json: { prefixes: [watched] }, anew: true })) {
        if (e.event === 'dashboard.open') {
          try {
            await catchUp();
            patch(trouble);
          } catch (e) {
            if (signal.aborted) return;
            behind = true; // the next stream tries it again
            patch(trouble, fault(e));
          }
          state = 'live';
        } else if (e.event === 'dashboard.lost') {
          state = 'lost';
          if (!list[0]?.gap) list = [{ n: n++, gap: 'not watched for a while: what was removed then is not shown' }, ...list];
        } else if (e.event === 'change') {
          const data = parse(e.data);
          if (data.life !== life) {
            if (life !== undefined) told = 0;
            caught = new Map();
          }
          show(data.changes.filter((c) => !c.entry || !(plain(c.entry.version) <= caught.get(stringify(c.entry.key)))).map((c) => ({ ...c, version: c.entry?.version ?? data.version })), e.data.length);
          life = data.life;
          if (!data.more && !behind) told = plain(data.version);
        }
        if (signal.aborted) return;
        part.set(list);
      }
    } catch (e) {
      if (!signal.aborted) { state = 'not live'; part.set(list); patch(trouble, fault(e)); }
    }
  }
  page.part.append(part.el, trouble);
  start();
}
