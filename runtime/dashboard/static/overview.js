// The node as a whole: rates, latencies, lags and what needs a look. All of it is read from /metrics.

import { h, patch } from './dom.js';
import { get } from './api.js';
import { badge, button, facts, table, time } from './ui.js';
import { address, amount, bytes, clock, link, number, seconds } from './format.js';
import { quantile, rate, scrape } from './metrics.js';
import { spark } from './chart.js';

const period = 2000;
const shown = 150; // points of a chart
const least = 60_000; // the shortest time that a chart shows
const history = []; // scrapes; it stays while other pages are shown

const mean = 5; // a latency is that of so many periods: few samples make a quantile jump
// valueAt is the value that a chart has at a scrape. It is calculated once, and a scrape keeps its samples for as long as others need them.
const valueAt = (s, name, f) => {
  if (!s.values.has(name)) s.values.set(name, f());
  return s.values.get(name);
};
const each = (name, f) => history.slice(1).map((b, i) => [b.at, valueAt(b, name, () => f(history[i], b))]);
const over = (name, f) => history.slice(1).map((b, i) => [b.at, valueAt(b, name, () => f(history[Math.max(0, i + 1 - mean)], b))]);
const level = (name, f) => history.map((s) => [s.at, valueAt(s, name, () => f(s))]);
// nearest is the value of the point that is nearest to a time.
const nearest = (points, at) => points.reduce((a, b) => Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a, points[0] ?? [0, NaN])[1];
const last = (points) => points.length ? points[points.length - 1][1] : NaN;

let pointed = null; // {title, at}: the moment of a chart that the pointer is at
let redraw = () => {};

const point = (to) => {
  pointed = to;
  redraw();
};

// chart is a card with a value and how it went. The series are [name, points]. With the pointer over it, it shows the values of a moment.
function chart(title, series, format, hint) {
  const to = history.length ? history[history.length - 1].at : Date.now();
  const from = to - Math.min(shown * period, Math.max(least, to - (history[0]?.at ?? to)));
  const at = pointed?.title === title ? from + pointed.at * (to - from) : NaN;
  const seen = (points) => Number.isNaN(at) ? last(points) : nearest(points, at);
  const value = seen(series[0][1]);
  return h('figure.card', { key: title, title: hint },
    h('figcaption', h('span', title, Number.isNaN(at) ? null : h('em', ' at ' + clock(at))), h('strong', Number.isFinite(value) ? format(value) : '–')),
    spark(series.map(([, points], i) => ({ points, class: i ? 'second' : '' })), { format, from, to, at, point: (x) => point(x === null ? null : { title, at: x }) }),
    h('div.legend', series.map(([name, points], i) => name ? h('span', { class: i ? 'second' : '' }, name, ' ', Number.isFinite(seen(points)) ? format(seen(points)) : '–') : null)));
}

function tile(name, value, tone, href) {
  const inner = [h('span', name), h('strong', value)];
  return href ? h('a.tile', { key: name, href, class: tone }, inner) : h('div.tile', { key: name, class: tone }, inner);
}

function tiles(s) {
  const bad = (n) => n > 0 ? 'bad' : '';
  return h('div.tiles',
    tile('Awake', number(s.sum('cairn_actors_awake')), '', '#/actors'),
    tile('Running', number(s.sum('cairn_actors_running'))),
    tile('Failed', number(s.sum('cairn_actors_failed')), bad(s.sum('cairn_actors_failed')), '#/actors?where=state%3Dfailed'),
    tile('Paused', number(s.sum('cairn_actors_paused')), s.sum('cairn_actors_paused') ? 'warn' : '', '#/actors?where=state%3Dpaused'),
    tile('Connections', number(s.sum('cairn_connections'))),
    tile('Waiting work', number(s.sum('cairn_mailbox_items'))),
    tile('Store', s.sum('cairn_store_writable') ? 'writable' : 'read-only', s.sum('cairn_store_writable') ? 'good' : 'bad'),
    tile('Free disk', bytes(s.sum('cairn_store_free_bytes')), s.sum('cairn_store_free_bytes') < 4 * s.sum('cairn_store_free_min_bytes') ? 'bad' : ''));
}

function charts() {
  const r = (name) => each(name, (a, b) => rate(a, b, name));
  const q = (name, p) => over(name + p, (a, b) => quantile(a, b, name, p));
  const pair = (name) => [['p99', q(name, 0.99)], ['p50', q(name, 0.5)]];
  const errors = each('errors', (a, b) => rate(a, b, 'cairn_turns_total', { result: 'error' }));
  return h('div.cards',
    chart('Turns per second', [['all', r('cairn_turns_total')], ['errors', errors]], amount),
    chart('Requests per second', [['HTTP', r('cairn_http_requests_total')], ['queries', r('cairn_queries_total')]], amount),
    chart('Commits per second', [['commits', r('cairn_commits_total')], ['turns in them', r('cairn_commit_turns_total')]], amount),
    chart('Written per second', [['', r('cairn_store_commit_bytes_total')]], bytes),
    chart('Time in handlers', pair('cairn_turn_seconds'), seconds),
    chart('Sync of the disk', pair('cairn_store_sync_seconds'), seconds, 'Each reply waits for a sync'),
    chart('Wait for the disk', pair('cairn_store_gate_seconds'), seconds, 'From applying a commit until it was durable'),
    chart('Wait in mailboxes', pair('cairn_mailbox_seconds'), seconds),
    chart('Time to wake', pair('cairn_wake_seconds'), seconds),
    chart('HTTP requests', pair('cairn_http_request_seconds'), seconds),
    chart('Lag of alarms', [['alarms p99', q('cairn_alarm_lag_seconds', 0.99)], ['schedules p99', q('cairn_schedule_lag_seconds', 0.99)]], seconds, 'How late they fire'),
    chart('Lag of queues', [['p99', q('cairn_queue_lag_seconds', 0.99)], ['oldest', level('oldest', (s) => s.max('cairn_queue_oldest_seconds'))]], seconds, 'Of awake actors'));
}

function types(s) {
  const awake = s.by('cairn_type_actors_awake', 'type');
  const actors = s.by('cairn_type_actors', 'type');
  const size = s.by('cairn_type_bytes', 'type');
  const first = history[Math.max(0, history.length - 6)];
  const before = first.by('cairn_type_commit_turns_total', 'type');
  const turns = s.by('cairn_type_commit_turns_total', 'type');
  const elapsed = Math.max(1, s.at - first.at) / 1000;
  const rows = [...awake.keys()].sort().map((type) => ({
    key: type, href: '#/actors?type=' + encodeURIComponent(type),
    cells: [type, number(awake.get(type)), number(actors.get(type) ?? 0), bytes(size.get(type) ?? 0), amount(((turns.get(type) ?? 0) - (before.get(type) ?? 0)) / elapsed), number(turns.get(type) ?? 0)],
  }));
  return table([{ label: 'Type', class: 'grow' }, { label: 'Awake', class: 'num' }, { label: 'Actors', class: 'num' }, { label: 'Size', class: 'num' }, { label: 'Turns/s', class: 'num' }, { label: 'Turns that wrote', class: 'num opt' }], rows, { none: 'The node hosts no types.' });
}

// kinds is what the store is full of.
function kinds(s) {
  const all = [...s.by('cairn_type_kind_bytes', 'kind')].sort((a, b) => b[1] - a[1]);
  const sum = all.reduce((n, [, size]) => n + size, 0);
  return table([{ label: 'Kind of key', class: 'grow' }, { label: 'About', class: 'num' }, { label: 'Share', class: 'num' }],
    all.slice(0, 10).map(([kind, n]) => ({ key: kind, cells: [kind, bytes(n), (100 * n / sum).toFixed(1) + ' %'] })), { none: 'No actor has anything stored.', caption: 'Storage by kind' });
}

// troubles are counters that should stand still.
const troubles = [
  ['cairn_commits_refused_total', 'commits refused'], ['cairn_wake_failures_total', 'actors that did not wake'],
  ['cairn_turns_abandoned_total', 'turns abandoned'], ['cairn_queue_dead_total', 'messages became dead letters'],
  ['cairn_sends_failed_total', 'messages between actors given up'], ['cairn_overloaded_total', 'calls refused: overloaded'],
  ['cairn_tasks_failed_total', 'tasks failed'], ['cairn_tasks_abandoned_total', 'tasks abandoned'],
  ['cairn_workflow_paused_total', 'workflow runs paused'], ['cairn_workflow_step_failures_total', 'attempts of steps failed'],
  ['cairn_nats_dropped_total', 'changes never published'], ['cairn_trace_spans_dropped_total', 'spans dropped'],
  ['cairn_http_panics_total', 'requests panicked: a defect'],
];

function trouble(s) {
  const rows = troubles.map(([name, text]) => [name, text, s.sum(name)]).filter(([, , n]) => n > 0);
  return table([{ label: 'Since the start', class: 'grow' }, { label: 'Count', class: 'num' }],
    rows.map(([name, text, n]) => ({ key: name, cells: [text, number(n)] })), { none: 'Nothing failed since the node started.' });
}

function health(s) {
  const budget = s.sum('cairn_memory_budget_bytes', { part: 'actors' });
  return facts(
    ['Disk used', bytes(s.sum('cairn_store_disk_bytes'))],
    ['Memory of actors', [bytes(s.sum('cairn_actors_awake_bytes')), budget ? h('span.dim', ' of ' + bytes(budget)) : null]],
    ['Block cache', bytes(s.sum('cairn_store_cache_bytes'))],
    ['Commits not durable yet', number(s.sum('cairn_store_commits_waiting'))],
    ['Compaction debt', bytes(s.sum('cairn_store_compaction_debt_bytes'))],
    ['Writes held back', seconds(s.sum('cairn_store_stall_seconds_total'))],
    s.has('cairn_outbox_rows') && s.sum('cairn_outbox_rows') ? ['Outbox', [number(s.sum('cairn_outbox_rows')), ' rows, oldest ', seconds(s.max('cairn_outbox_lag_seconds'))]] : null,
    s.has('cairn_nats_connected') ? ['NATS', s.sum('cairn_nats_connected') ? 'connected' : h('span.bad', 'away')] : null,
    ['Messages in queues', ['pending', 'delayed', 'processing', 'dead'].map((state) => [s.sum('cairn_queue_depth', { state }), state])
      .filter(([n]) => n).map(([n, state]) => `${number(n)} ${state}`).join(', ') || '0'],
    ['Tasks', number(s.sum('cairn_tasks_running'))],
    ['Event streams', number(s.sum('cairn_http_event_streams'))],
    ['Databases open', number(s.sum('cairn_sql_connections'))]);
}

const measures = { time: 'time', turns: 'turns', bytes: 'bytes', size: 'size' }; // what actors are compared by

export default function overview(page) {
  let by = measures[page.query.get('top')] ?? 'time';
  const choose = () => Object.keys(measures).map((m) => button(m, () => {
    by = m;
    page.setQuery({ top: m }, true);
    patch(choices, choose());
    top.refresh();
  }, { 'aria-pressed': String(m === by) }));
  const choices = h('span.segments', choose());
  const top = page.section({
    title: 'Top actors of the last minute', ms: 5000, cls: 'flush', actions: choices,
    load: (signal) => get('-/top?' + new URLSearchParams({ by, limit: 10 }), { signal }),
    show: (r) => table([{ label: 'Actor', class: 'grow' }, { label: 'Turns', class: 'num' }, { label: 'Time', class: 'num' }, { label: 'Written', class: 'num opt' }, { label: 'Sent', class: 'num opt' }, { label: 'Size', class: 'num' }],
      r.actors.map((a) => ({
        key: address(a), href: link(a, 'usage'),
        cells: [address(a), number(a.turns), seconds(a.handler_us / 1e6), bytes(a.bytes_written), bytes(a.bytes_sent), bytes(a.bytes_stored)],
      })), { none: 'No actor is in memory.', caption: 'Top actors' }),
  });
  const need = page.section({
    title: 'Workflow runs that need a look', ms: 5000, cls: 'flush',
    load: (signal) => get('workflows?limit=5', { signal }),
    show: (r) => table([{ label: 'Actor', class: 'grow' }, 'State', { label: 'Reason', class: 'opt' }, 'Since'], (r.runs ?? []).map((x) => ({
      key: address(x), href: link(x, 'run'), cells: [address(x), badge(x.state), x.reason ?? '', time(x.since)],
    })), { none: 'No run is paused or has failed.' }),
  });
  const lower = [['Types', types], ['Trouble', trouble], ['The node', health], ['Storage', kinds]].map(([title, show]) => page.section({ title, show, cls: title === 'The node' ? '' : 'flush' }));
  const main = page.section({
    title: '', cls: 'bare', ms: period,
    load: async (signal) => {
      const s = await scrape(signal);
      const before = history[history.length - 1];
      // After a gap, or a new start of the node, the charts begin anew.
      if (before && (s.at - before.at > 10 * period || s.sum('cairn_commits_total') < before.sum('cairn_commits_total'))) history.length = 0;
      history.push(s);
      if (history.length > shown + 1) history.shift();
      for (const l of lower) l.set(s);
      return s;
    },
    show: (s) => {
      const nodes = [tiles(s), charts()];
      for (const old of history.slice(0, -mean - 2)) old.all.clear();
      return nodes;
    },
  });
  redraw = main.render;
  page.root.append(h('h1', 'Overview'), main.el, h('div.columns', h('div.part', top.el, lower[0].el, need.el), h('div.part', lower[1].el, lower[2].el, lower[3].el)));
}
