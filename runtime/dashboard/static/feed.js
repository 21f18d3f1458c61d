// What happens on the node right now: changes of actors, and events of those that are followed.

import { h, patch } from './dom.js';
import { actorPath, events, get } from './api.js';
import { badge, button, dialog, fault, table } from './ui.js';
import { address, clock, latest, link, number, parseAddress } from './format.js';
import { body } from './queues.js';
import { parse } from './json.js';
import { scrape } from './metrics.js';

const kept = 500;
const looked = 500; // actors
const followed = 3; // a browser opens six connections to a node, and pages need the others

export default function feed(page) {
  const type = page.query.get('type') ?? '';
  const follows = new Map(page.query.getAll('follow').slice(0, followed).map((a) => [a, null]));
  let list = [];
  let versions = null;
  let held = false;
  let n = 0;
  const add = (lines) => {
    list = latest([...lines.map((l) => ({ ...l, n: n++, at: clock(Date.now()) })), ...list], kept);
    if (!held) part.set(list);
  };
  const hold = button('Hold', () => { held = !held; patch(hold, held ? 'Go on' : 'Hold'); part.set(list); });
  const chips = h('span.chips');
  const choose = h('select', { 'aria-label': 'Type', onchange: (e) => page.setQuery({ type: e.target.value }) }, h('option', { value: '' }, 'all types'));
  const part = page.section({
    title: '', cls: 'flush',
    show: (rows) => table(['Time', 'What', 'Actor', { label: 'Data', class: 'grow' }], rows.map((l) => ({ key: l.n, href: link(l.actor, l.event ? 'events' : ''), cells: [l.at, l.event ? badge(l.event, 'info') : badge('changed', 'quiet'), address(l.actor), l.value === undefined ? l.data ?? '' : body(l.value)] })),
      { none: 'Nothing has happened since this page was opened.', caption: 'Feed' }),
  });
  const drawChips = () => patch(chips, [...follows.keys()].map((a) => h('span.chip', { key: a }, a, button('×', () => {
    follows.get(a)?.abort();
    follows.delete(a);
    remember();
  }, { 'aria-label': 'Stop following ' + a }))));
  const remember = () => {
    const q = new URLSearchParams(page.query);
    q.delete('follow');
    for (const a of follows.keys()) q.append('follow', a);
    page.query = q;
    history.replaceState(null, '', '#/feed' + (String(q) ? '?' + q : ''));
    drawChips();
  };
  async function follow(text) {
    const a = parseAddress(text);
    const stop = new AbortController();
    follows.set(text, stop);
    const signal = AbortSignal.any([page.signal, stop.signal]);
    try {
      for await (const e of events(actorPath(a) + 'events', { signal })) {
        if (e.event && !e.event.startsWith('dashboard.')) add([{ actor: a, event: e.event, value: e.data === undefined ? undefined : parse(e.data), size: e.data?.length }]);
      }
    } catch (e) {
      if (!signal.aborted) page.root.append(fault(e));
    }
  }
  const more = button('Follow events…', () => dialog({
    title: 'Follow the events of an actor', text: `Up to ${followed} at a time.`, submit: 'Follow', fields: [{ name: 'address', label: 'Address', placeholder: 'TYPE/KEY', required: true }],
    run: async (v) => {
      const a = address(parseAddress(v.address));
      if (follows.size >= followed && !follows.has(a)) throw new Error(`${followed} actors are followed: stop one first.`);
      if (!follows.has(a)) follow(a);
      remember();
    },
  }));
  part.set(list);
  page.live(async () => {
    try {
      const r = await get('actors?' + new URLSearchParams({ limit: looked, ...(type ? { type } : {}) }), { signal: page.signal });
      const now = new Map(r.actors.map((a) => [a.id, a]));
      if (versions) {
        const lines = [];
        for (const a of now.values()) {
          const before = versions.get(a.id);
          if (!before) lines.push({ actor: a, data: 'created, or new in the list' });
          else if (before.version !== a.version) lines.push({ actor: a, data: `version ${number(a.version)}, ${number(a.version - before.version)} after the last` });
          else if (before.state !== a.state) lines.push({ actor: a, data: [before.state, ' → ', badge(a.state)] });
        }
        for (const a of versions.values()) if (!now.has(a.id) && !r.cursor) lines.push({ actor: a, data: h('span.bad', 'destroyed') });
        if (lines.length) add(lines);
      }
      versions = now;
    } catch (e) {
      if (!page.signal.aborted) patch(trouble, fault(e));
    }
  }, 2000);
  const trouble = h('div');
  page.root.append(h('div.head', h('h1', 'Live feed'), h('div.actions', chips, more, choose, hold)), trouble, part.el,
    h('p.note', `Changes are those of the first ${number(looked)} actors${type ? ' of the type' : ''}, looked at every two seconds.`));
  for (const a of follows.keys()) follow(a);
  drawChips();
  scrape(page.signal).then((s) => {
    patch(choose, h('option', { value: '' }, 'all types'), [...s.by('cairn_type_actors_awake', 'type').keys()].sort().map((x) => h('option', { value: x }, x)));
    choose.value = type;
  }).catch(() => { /* without metrics there is no list of types */ });
}
