// The workflow run of an actor: what it waits for, its history as a timeline and as a graph, and its verbs.

import { h } from './dom.js';
import { badge, button, facts, json, moment, note, time, verb } from './ui.js';
import { address, ago, bytes, link, micros, number, span } from './format.js';
import { parse } from './json.js';

const over = new Set(['completed', 'failed', 'cancelled', 'terminated']);
const most = 2000; // entries

export default function run(page) {
  let scale = 'order';
  let chosen = '';
  const refresh = () => { status.refresh(); history.refresh(); page.refresh(); };
  const v = (label, method, more = {}) => verb(label, { title: `${label.replace('…', '')} the run of ${address(page.actor)}`, run: (_, reason) => page.act(method, { reason }, reason), done: refresh, ...more });
  const start = verb('Start…', {
    title: 'Start a workflow', fields: [{ name: 'workflow', label: 'Workflow', required: true }, { name: 'input', label: 'Input, as JSON', type: 'area', value: 'null', rows: 5 }, { name: 'replace', label: 'Replace a run that is over', type: 'check' }],
    run: (x, reason) => page.act('workflow.start', { workflow: x.workflow, input: parse(x.input), replace: x.replace || undefined }, reason, { create: true }).then((o) => o.started ? 'Started ' + o.run : 'It was there already'), done: refresh,
  });
  const status = page.section({
    title: 'Run', load: async () => (await page.get('')).run ? page.call('workflow.status') : {},
    show: (s) => !s.workflow ? [h('p.empty', 'It has no workflow run.'), h('div.actions', start)] : [
      h('div.head', h('h2', s.workflow, ' ', badge(s.state)), h('div.actions',
        over.has(s.state) ? start : [
          s.state === 'paused' ? v('Resume', 'workflow.resume') : v('Pause', 'workflow.pause'),
          v('Cancel…', 'workflow.cancel', { danger: true, text: 'The run is asked to end, and undoes what it says how to undo.' }),
          v('Terminate…', 'workflow.terminate', { danger: true, confirm: s.workflow, text: 'The run ends at once and undoes nothing.' })])),
      s.pause ? h('div.notice', h('strong', 'paused: ', s.pause.reason), s.pause.text ? h('pre', s.pause.text) : null, h('p', 'since ', time(s.pause.since), s.pause.attempts ? ` · ${s.pause.attempts} attempts` : '', s.pause.next ? [' · next try ', ago(s.pause.next)] : null)) : null,
      s.failure ? h('div.fault', h('strong', s.failure.code || s.failure.type || 'failed'), ' ', s.failure.message) : null,
      s.cancel ? h('div.notice', h('strong', 'cancel was asked'), ' ', s.cancel.reason ?? '', ' · ', time(s.cancel.time)) : null,
      s.waiting?.length ? h('ul.waits', s.waiting.map((w) => h('li', { key: w.id }, h('strong', 'waits for ', wanted(w)), ' in ', h('code', w.path), w.since ? [' since ', time(w.since)] : null, w.until ? [', until ', ago(w.until)] : null,
        w.attempts ? `, ${w.attempts} attempts` : '', w.failure ? h('div.bad', w.failure.message) : null))) : null,
      facts(['Started', moment(s.started)], s.ended ? ['Ended', moment(s.ended)] : null, ['Took', span((s.ended ? new Date(s.ended) : Date.now()) - new Date(s.started))], s.version ? ['Version of the code', s.version] : null, ['Entries', number(s.entries)], ['Size', bytes(s.bytes)],
        s.undo ? ['Undo handlers left', number(s.undo)] : null, s.id ? ['Id', h('code', s.id)] : null),
      h('div.columns', s.input !== undefined ? h('div', h('h3', 'Input'), json(s.input)) : null, s.output !== undefined ? h('div', h('h3', 'Result'), json(s.output)) : null, s.published !== undefined ? h('div', h('h3', 'Published'), json(s.published)) : null)],
  });
  const history = page.section({
    title: 'History', cls: 'flush',
    actions: [h('span.segments', [['order', 'In order'], ['time', 'In time'], ['graph', 'Graph']].map(([id, name]) => button(name, (e) => {
      scale = id;
      for (const b of e.target.parentNode.children) b.setAttribute('aria-pressed', String(b === e.target));
      history.render();
    }, { 'aria-pressed': String(id === scale) })))],
    load: async () => {
      const entries = [];
      let after;
      do {
        const r = await page.call('workflow.history', { after, limit: 1000 });
        entries.push(...r.entries ?? []);
        after = r.more ? entries[entries.length - 1].id : undefined;
      } while (after && entries.length < most);
      entries.cut = Boolean(after);
      detail.set(entries.find((x) => x.id === chosen) ?? null);
      return entries;
    },
    show: (entries) => entries.length ? [entries.cut ? note(`The first ${number(entries.length)} entries are shown.`) : null, scale === 'graph' ? graph(entries, pick) : timeline(entries, scale, pick, chosen)] : h('p.empty', 'No entries yet.'),
  });
  const detail = page.section({ title: 'Entry', show: (e) => e ? entry(page, e, v) : h('p.empty', 'Choose an entry.') });
  function pick(e) { chosen = e.id; detail.set(e); history.render(); }
  detail.set(null);
  page.part.append(status.el, history.el, detail.el);
}

// wanted says in words what a run waits for.
function wanted(w) {
  if (w.queues?.length) return ['a message in ', w.queues.join(' or ')];
  if (w.child) return h('a', { href: link(w.child, 'run') }, address(w.child));
  return { sleep: 'a time', step: 'its next attempt', await: 'a condition', join: 'its branches', race: 'the first branch', call: 'a reply' }[w.kind] ?? w.kind;
}

const depth = (e) => e.path.split('/').length - 1;
const name = (e) => e.path.split('/').pop();
const tone = (e) => e.status === 'failed' ? 'error' : e.ended ? '' : 'open';

// timeline shows entries as bars: in time, or with the same width for each moment at which something began or ended, because
// a wait of days would hide all else.
function timeline(entries, scale, pick, chosen) {
  const now = Date.now();
  const begin = (e) => e.created ? micros(e.created) : 0;
  const end = (e) => e.ended ? micros(e.ended) : now;
  const moments = [...new Set(entries.flatMap((e) => [begin(e), end(e)]))].sort((a, b) => a - b);
  const rank = new Map(moments.map((m, i) => [m, i]));
  const from = moments[0];
  const to = moments[moments.length - 1];
  const at = (m) => scale === 'time' ? (m - from) / (to - from || 1) * 100 : rank.get(m) / (moments.length - 1 || 1) * 100;
  return h('div.waterfall', { role: 'table', 'aria-label': 'History' }, entries.map((e) => h('div.wf-row', { key: e.id, role: 'row', class: e.id === chosen ? 'chosen' : null, onclick: () => pick(e) },
    h('span.wf-name', { role: 'cell', style: { 'padding-left': 8 + Math.min(depth(e), 12) * 14 + 'px' } }, h('button.row', { type: 'button', onclick: (x) => { x.stopPropagation(); pick(e); } }, h('span.kind', e.kind), ' ', name(e)), e.attempts > 1 ? h('span.dim', ` ×${e.attempts}`) : null),
    h('span.wf-bar', { role: 'cell' }, h('b', { class: tone(e), style: { left: at(begin(e)) + '%', width: Math.max(0.4, at(end(e)) - at(begin(e))) + '%' } }),
      h('em', { class: at(begin(e)) > 70 ? 'left' : '', style: at(begin(e)) > 70 ? { right: 100 - at(begin(e)) + '%' } : { left: at(end(e)) + '%' } }, e.ended ? span(end(e) - begin(e)) : e.status)))));
}

const parallel = new Set(['join', 'race', 'foreach']);

// graph shows entries as boxes: one after the other, and the branches of a join or a race below each other.
function graph(entries, pick) {
  const boxes = new Map();
  const roots = [];
  for (const e of entries) {
    const box = { e, inside: [] };
    boxes.set(e.path, box);
    const up = e.path.includes('/') ? boxes.get(e.path.slice(0, e.path.lastIndexOf('/'))) : null;
    (up ? up.inside : roots).push(box);
  }
  const draw = ({ e, inside }) => h('div.node', { key: e.id, class: [tone(e), inside.length ? 'holds' : ''].join(' ') },
    h('button.row', { type: 'button', onclick: () => pick(e) }, h('span.kind', e.kind), h('strong', name(e)), h('span.dim', e.ended ? span(micros(e.ended) - micros(e.created)) : e.status),
      e.attempts > 1 ? h('span.warn', `×${e.attempts}`) : null, e.winner ? h('span.dim', 'won: ' + e.winner) : null),
    inside.length ? h('div', { class: parallel.has(e.kind) ? 'branches' : 'flow' }, inside.map(draw)) : null);
  return h('div.graph', h('div.flow', roots.map(draw)));
}

function entry(page, e, v) {
  return [
    h('div.head', h('h3', h('span.kind', e.kind), ' ', e.path, ' ', badge(e.status)), h('div.actions',
      e.status === 'failed' || e.lastFailure ? v('Retry…', 'workflow.retry', { text: 'The step runs again.', run: (_, reason) => page.act('workflow.retry', { reason, entry: e.id }, reason) }) : null,
      v('Rewind…', 'workflow.rewind', { danger: true, confirm: e.id, text: 'This entry and what came after it are forgotten, and the run goes on from there.', run: (_, reason) => page.act('workflow.rewind', { reason, entry: e.id }, reason) }))),
    e.failure ? h('div.fault', h('strong', e.failure.code || e.failure.type || 'failed'), ' ', e.failure.message) : null,
    e.lastFailure ? h('div.notice', 'last attempt: ', e.lastFailure.message) : null,
    facts(['Began', moment(e.created)], e.ended ? ['Ended', moment(e.ended)] : null, e.attempts ? ['Attempts', number(e.attempts)] : null, e.lastAttempt ? ['Last attempt', time(e.lastAttempt)] : null, e.due ? ['Next attempt', ago(e.due)] : null,
      e.deadline ? ['Deadline', [moment(e.deadline), ' · ', ago(e.deadline)]] : null, e.iteration ? ['Iteration', number(e.iteration)] : null, e.queues ? ['Queues', e.queues.join(', ')] : null, e.messages ? ['Messages', number(e.messages)] : null,
      e.child ? ['Child', h('a', { href: link(e.child, 'run') }, address(e.child))] : null, e.winner ? ['Winner', e.winner] : null, e.undone ? ['Undone', moment(e.undone)] : null, ['Size', bytes(e.bytes)], ['Entry', h('code', e.id)]),
    e.state !== undefined ? [h('h3', 'Began with'), json(e.state)] : null,
    e.output !== undefined ? [h('h3', 'Result'), json(e.output)] : e.sensitive ? h('p.empty', 'The result is sensitive, and is not shown.') : e.large ? h('p.empty', `The result has ${bytes(e.large)}, and is not shown.`) : null];
}
