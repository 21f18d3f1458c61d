// One actor: its state, its verbs and its parts. Nothing here wakes it except the verbs that say so.

import { h, patch } from './dom.js';
import { actorPath, call, get, ofActor, send, unsegment } from './api.js';
import { badge, facts, fault, json, tabs, time, verb } from './ui.js';
import { stored, unbase64 } from './cbor.js';
import { address, ago, bytes, clock, keyOf, link, number } from './format.js';

const parts = {
  '': { name: 'Overview', show: overview },
  state: { name: 'State', load: () => import('./state.js') },
  queues: { name: 'Queues', load: () => import('./queues.js') },
  timers: { name: 'Schedules', load: () => import('./timers.js') },
  messages: { name: 'Messages', load: () => import('./messages.js') },
  connections: { name: 'Connections', load: () => import('./connections.js') },
  streams: { name: 'Streams', load: () => import('./streams.js') },
  events: { name: 'Events', load: () => import('./events.js') },
  run: { name: 'Workflow', load: () => import('./run.js') },
  store: { name: 'Store', load: () => import('./store.js') },
  sql: { name: 'SQL', load: () => import('./sql.js') },
  keys: { name: 'Keyspace', load: () => import('./keys.js') },
  traces: { name: 'Traces', load: () => import('./spans.js') },
  usage: { name: 'Usage', load: () => import('./usage.js') },
  audit: { name: 'Audit', load: async () => ({ default: (await import('./audit.js')).auditOfActor }) },
};

const limitNames = ['storage_bytes', 'write_set_bytes', 'value_bytes', 'state_bytes', 'mailbox_count', 'mailbox_bytes', 'connections', 'call_rate', 'call_burst', 'sql_memory_bytes', 'sql_temporary_bytes', 'sql_turn_bytes', 'sql_value_bytes'];

let seen; // the last status of the last actor, so that a change of tab shows no blank

export default async function actor(page) {
  const end = page.raw.indexOf('-');
  const segments = (end < 0 ? page.raw : page.raw.slice(0, end)).map(unsegment);
  const rest = end < 0 ? [] : page.raw.slice(end + 1).map(unsegment);
  const a = page.actor = { type: segments[0], key: segments.slice(1) };
  const id = parts[rest[0] ?? ''] ? rest[0] ?? '' : '';
  page.rest = rest.slice(1);
  page.at = (tab) => link(a, tab);
  page.call = (name, input, options) => call(a, name, input, { signal: page.signal, ...options });
  page.act = (name, input, reason, options) => call(a, name, input, { reason, ...options });
  page.get = (path) => get(actorPath(a) + path, { signal: page.signal });
  page.title(address(a) + (id ? ' · ' + parts[id].name : ''));
  page.crumbs(['Actors', '#/actors'], [a.type, '#/actors?type=' + encodeURIComponent(a.type)], [keyOf(a) || '(no key)', id ? link(a) : null]);

  const head = h('div.actor-head');
  const bar = h('div');
  const body = h('div.part');
  page.root.append(head, bar, body);
  const draw = (s, e) => {
    patch(head, title(page, a, s, e), s ? brief(s) : null);
    patch(bar, tabs(Object.entries(parts).filter(([t]) => !ofActor() || t === 'store' || s && t !== 'audit').map(([t, p]) => [t, p.name, link(a, t), s && count(s, t)]), id, 'Parts of the actor'));
  };
  page.refresh = async () => {
    try {
      const s = await page.get('');
      seen = { address: address(a), status: s };
      draw(s);
      page.onstatus?.(s);
    } catch (e) {
      if (page.signal.aborted) return;
      if (e.code === 'not_found') { // it was destroyed
        seen = null;
        page.onstatus?.(null);
      }
      if (id === '' && ofActor() && e.code === 'permission_denied') location.replace(page.at('store')); // the token is for the store only
      draw(null, ofActor() && e.code === 'permission_denied' ? null : e);
    }
  };
  draw(seen?.address === address(a) ? seen.status : null);
  page.part = body;
  bar.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' });
  page.live(page.refresh, 2500);
  if (parts[id].show) parts[id].show(page);
  else {
    const module = await parts[id].load();
    if (!page.signal.aborted) await module.default(page);
  }
}

function count(s, tab) {
  switch (tab) {
    case 'timers': return s.alarms;
    case 'messages': return s.pending_sends + s.failed_sends;
    case 'connections': return s.connections;
  }
  return 0;
}

function title(page, a, s, e) {
  const done = () => page.refresh();
  const v = (label, method, more = {}) => verb(label, { title: `${label} ${address(a)}`, run: (_, reason) => page.act(method, method === 'actor.pause' ? { reason } : null, reason), done, ...more });
  return [
    h('div.head', h('h1.address', h('span.dim', a.type, '/'), keyOf(a), ' ', s ? badge(s.state) : null, s?.run ? [' ', badge(s.run.state)] : null),
      s && !ofActor() ? h('div.actions',
        s.state === 'paused' ? v('Resume', 'actor.resume') : v('Pause', 'actor.pause', { text: 'Calls, messages and alarms wait until it is resumed.' }),
        s.state === 'failed' ? v('Retry', 'actor.retry', { text: 'It is tried again at once.' }) : null,
        s.state === 'asleep' ? v('Wake', 'actor.wake') : null,
        s.state === 'awake' ? v('Sleep', 'actor.sleep') : null,
        verb('Destroy…', {
          title: 'Destroy ' + address(a), danger: true, confirm: address(a),
          text: 'All its data goes: state, store, queues, schedules, streams, database and history. This cannot be undone.',
          run: (_, reason) => send('DELETE', actorPath(a), { reason }).then(() => 'Destroyed ' + address(a)),
          done: () => { location.hash = '#/actors?type=' + encodeURIComponent(a.type); },
        })) : null),
    e ? fault(e) : null];
}

function brief(s) {
  return [
    s.failure ? h('div.fault', h('strong', 'failed'), ' ', s.failure.reason, ' · since ', time(s.failure.since), ` · ${s.failure.attempts} attempts · next `, ago(s.failure.retry_at)) : null,
    s.pause ? h('div.notice', h('strong', 'paused'), ' ', s.pause.reason || 'without a reason', ' · since ', time(s.pause.since)) : null];
}

// overview shows what the actor waits for, and its figures.
function overview(page) {
  const why = page.section({
    title: 'Why', ms: 2500, load: () => page.call('actor.why'),
    show: (w) => [
      h('p.why', w.text),
      facts(['Waits for', w.why], w.remedy ? ['Remedy', w.remedy] : null, w.since ? ['Since', time(w.since)] : null, w.until ? ['Until', [clock(w.until), ' · ', ago(w.until)]] : null,
        ...Object.entries(w.details ?? {}).map(([k, v]) => [k.replaceAll('_', ' '), v]))],
  });
  const figures = page.section({
    title: 'Status',
    show: (s) => s && facts(
      ['State', badge(s.state)], ['Version', number(s.version)], ['Activations that wrote', number(s.generation)],
      ['Keys', number(s.keys)], ['Size', bytes(s.bytes)], ['Created', [clock(s.created), ' · ', ago(s.created)]], ['Changed', [clock(s.updated), ' · ', ago(s.updated)]],
      ['Waiting in the mailbox', number(s.mailbox)], ['Messages to others', [number(s.pending_sends), ' wait, ', number(s.failed_sends), ' failed']],
      ['Alarms', [number(s.alarms), s.next_alarm ? [', next ', ago(s.next_alarm)] : null]], ['Tasks', number(s.tasks)], ['Connections', number(s.connections)],
      s.run ? ['Workflow run', [h('a', { href: page.at('run') }, s.run.workflow), ' ', badge(s.run.state), s.run.reason ? ' ' + s.run.reason : '', s.run.since ? [' since ', time(s.run.since)] : null]] : null,
      ['Id', h('code', s.id)]),
  });
  const limits = page.section({
    title: 'Limits of this actor',
    actions: ofActor() ? null : [
      verb('Set…', {
        title: 'Set a limit of this actor', text: 'It goes before that of the type.', fields: [{ name: 'name', label: 'Limit', type: 'select', value: limitNames[0], options: limitNames }, { name: 'value', label: 'Value', type: 'number', min: 0, step: 'any', required: true, hint: 'Bytes, a count, or calls per second.' }],
        run: (v, reason) => page.act('limits.set', { [v.name]: Number(v.value) }, reason), done: () => page.refresh(),
      }),
      verb('Reset', { title: 'Reset all limits of this actor', text: 'Those of its type hold again.', run: (_, reason) => page.act('limits.reset', {}, reason), done: () => page.refresh() })],
    show: (s) => s && (s.limits && Object.keys(s.limits).length ? json(s.limits) : h('p.empty', 'Those of its type.')),
  });
  const state = page.section({
    title: 'State', ms: 5000,
    load: () => page.get('keys?' + new URLSearchParams({ limit: 1, value_bytes: 65_536 })),
    show: (r) => {
      const key = r.keys[0];
      const kind = key && unbase64(key.key)[0];
      if (kind !== 1) return h('p.empty', 'It has no state.');
      const value = unbase64(key.value);
      if (value.length < key.size) return h('p.empty', `It has ${bytes(key.size)}, and is not shown.`);
      const known = stored(kind, value);
      return [known === undefined ? h('p.empty', 'It cannot be read here.') : json(known), h('p.note', `as of version ${number(key.version)}`)];
    },
  });
  page.onstatus = (s) => { figures.set(s); limits.set(s); };
  if (seen?.address === address(page.actor)) page.onstatus(seen.status);
  page.part.append(h('div.columns', h('div.part', why.el, figures.el), h('div.part', state.el, limits.el)));
}
