// The queues of an actor: counts, messages and dead letters.

import { h } from './dom.js';
import { badge, json, table, time, verb } from './ui.js';
import { mark, parse, stringify } from './json.js';
import { bytes, number } from './format.js';

export default function queues(page) {
  let chosen = page.query.get('q') ?? '';
  const list = page.section({
    title: 'Queues', cls: 'flush', load: () => page.call('queue.stats', {}),
    actions: sender(page, () => chosen, () => refresh()),
    show: (r) => {
      if (!chosen && r.queues.length) choose(r.queues.find((q) => q.pending + q.dead + q.delayed + q.processing)?.queue ?? r.queues[0].queue);
      return table([{ label: 'Queue', class: 'grow' }, { label: 'Pending', class: 'num' }, { label: 'Delayed', class: 'num opt' }, { label: 'Processing', class: 'num opt' },
        { label: 'Dead', class: 'num' }, { label: 'Size', class: 'num opt' }, { label: 'Sent', class: 'num opt' }, { label: 'Done', class: 'num opt' }, { label: 'Oldest', class: 'num opt' }, ''],
      r.queues.map((q) => ({
        key: q.queue, selected: q.queue === chosen, onopen: () => choose(q.queue),
        cells: [q.queue, number(q.pending), number(q.delayed), number(q.processing), q.dead ? h('span.bad', number(q.dead)) : number(0), bytes(q.bytes), number(q.sent), number(q.done),
          q.oldest ? time(q.oldest) : '–', h('span.verbs',
            verb('Skip', { small: true, title: 'Skip the next message of ' + q.queue, text: 'It becomes a dead letter.', run: (_, reason) => page.act('queue.skip', { queue: q.queue }, reason).then((o) => `Skipped ${o.count}`), done: refresh }),
            verb('Purge', { small: true, danger: true, confirm: q.queue, title: 'Purge ' + q.queue, text: 'All its messages are deleted, except those that workers hold.', run: (_, reason) => page.act('queue.purge', { queue: q.queue }, reason).then((o) => `Deleted ${o.count} messages`), done: refresh }))],
      })), { none: 'It has no queues with messages.', caption: 'Queues' });
    },
  });
  const messages = page.section({
    title: 'Messages', cls: 'flush', load: async () => chosen ? page.call('queue.peek', { queue: chosen, limit: 100 }) : { messages: [] },
    show: (r) => [table(['Id', 'State', { label: 'Body', class: 'grow' }, { label: 'Attempts', class: 'num opt' }, { label: 'Sent', class: 'num opt' }, ''], r.messages.map((m) => ({
      key: String(m.id.rawJSON ?? m.id), cells: [m.id, badge(m.state), [body(m.body), m.error ? h('div.bad', m.error) : null], m.attempts, time(m.sent),
        h('span.verbs', m.state === 'processing' ? null : edit(m), verb('Delete', { small: true, danger: true, title: 'Delete a message of ' + chosen, run: (_, reason) => page.act('queue.delete', { queue: chosen, ids: [m.id] }, reason), done: refresh }))],
    })), { none: 'No message waits.', caption: 'Messages' }), r.more ? h('p.empty', 'The first 100 are shown.') : null],
  });
  const dead = page.section({
    title: 'Dead letters', cls: 'flush', load: async () => chosen ? page.call('queue.dead.list', { queue: chosen, limit: 100 }) : { messages: [] },
    actions: [
      verb('Requeue all', { title: 'Requeue all dead letters', run: (_, reason) => page.act('queue.dead.requeue', { queue: chosen, all: true }, reason).then((o) => `Requeued ${o.count}`), done: () => refresh() }),
      verb('Delete all', { danger: true, title: 'Delete all dead letters', run: (_, reason) => page.act('queue.dead.delete', { queue: chosen, all: true }, reason).then((o) => `Deleted ${o.count}`), done: () => refresh() })],
    show: (r) => [table(['Id', { label: 'Body and error', class: 'grow' }, { label: 'Attempts', class: 'num opt' }, { label: 'Died', class: 'num opt' }, ''], r.messages.map((m) => ({
      key: String(m.id.rawJSON ?? m.id), cells: [m.id, [body(m.body), m.error ? h('div.bad', m.error) : null], m.attempts, time(m.died), h('span.verbs', edit(m),
        verb('Requeue', { small: true, title: 'Requeue a dead letter of ' + chosen, run: (_, reason) => page.act('queue.dead.requeue', { queue: chosen, ids: [m.id] }, reason), done: refresh }),
        verb('Delete', { small: true, danger: true, title: 'Delete a dead letter of ' + chosen, run: (_, reason) => page.act('queue.dead.delete', { queue: chosen, ids: [m.id] }, reason), done: refresh }))],
    })), { none: 'No dead letters.', caption: 'Dead letters' }), r.more ? h('p.empty', 'The first 100 are shown.') : null],
  });
  // edit replaces what a message says. It stays where it is in the queue, unless it gets a delay.
  function edit(m) {
    const queue = chosen;
    return verb('Edit…', {
      small: true, wide: true, title: `Replace message ${m.id.rawJSON ?? m.id} of ${queue}`, submit: 'Replace',
      fields: [{ name: 'body', label: 'Body, as JSON', type: 'area', rows: 12, required: true, value: stringify(m.body, 2) ?? '' }, { name: 'delay', label: 'Delay from now in milliseconds', type: 'number', min: 0, hint: 'Empty: as it is.' }],
      run: (v, reason) => page.act('queue.replace', { queue, id: m.id, body: parse(v.body), ...(v.delay === '' ? {} : { delay_ms: Number(v.delay) }) }, reason).then(() => 'Replaced'), done: refresh,
    });
  }
  function refresh() { list.refresh(); messages.refresh(); dead.refresh(); }
  function choose(name) {
    chosen = name;
    page.setQuery({ q: name }, true);
    refresh();
  }
  page.part.append(list.el, messages.el, dead.el);
}

const sender = (page, queue, done) => verb('Send…', {
  title: 'Send a message',
  fields: [{ name: 'queue', label: 'Queue', value: '', required: true, placeholder: queue() || 'jobs' }, { name: 'body', label: 'Body, as JSON', type: 'area', value: '{}', rows: 5 },
    { name: 'delay', label: 'Delay in milliseconds', type: 'number', min: 0, value: '0' }],
  run: (v, reason) => page.act('queue.send', { queue: v.queue, messages: [{ body: parse(v.body), delay_ms: Number(v.delay) }] }, reason).then((o) => 'Sent as ' + o.messages.map((m) => m.id).join(', ')),
  done,
});

const lines = new WeakMap(); // of values that are shown again and again: their line, and what tells them from others

// body is a value in one line that opens to all of it. What is closed has no nodes for the rest.
export function body(v) {
  const object = typeof v === 'object' && v !== null;
  let known = object && lines.get(v);
  if (!known) {
    const all = v === undefined ? '' : stringify(v);
    known = { line: all.length > 90 ? all.slice(0, 89) + '…' : all, keep: mark(all) };
    if (object) lines.set(v, known);
  }
  if (!object && !known.line.endsWith('…')) return h('code', known.line);
  return h('details', { keep: known.keep, ontoggle: (e) => { if (e.target.open && e.target.children.length === 1) e.target.append(json(v)); } }, h('summary', h('code', known.line)));
}
