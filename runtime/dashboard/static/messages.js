// Messages of an actor to others.

import { h } from './dom.js';
import { facts, table, time, verb } from './ui.js';
import { address, link, number, parseAddress } from './format.js';
import { body } from './queues.js';

export default function messages(page) {
  const waiting = page.section({
    title: 'Waiting', load: () => page.get(''),
    actions: verb('Skip next…', {
      title: 'Move the next message to an actor aside',
      fields: [{ name: 'to', label: 'Address of the receiver', placeholder: 'TYPE/KEY', required: true }],
      run: async (v, reason) => page.act('send.skip', parseAddress(v.to), reason).then((o) => `Moved ${o.count} aside`), done: () => refresh(),
    }),
    show: (s) => facts(['Not handled yet', number(s.pending_sends)], ['Given up', number(s.failed_sends)]),
  });
  const dead = page.section({
    title: 'Given up', cls: 'flush', load: () => page.call('send.dead.list', { limit: 100 }),
    actions: [
      verb('Send all again', { title: 'Send all again', run: (_, reason) => page.act('send.dead.requeue', { all: true }, reason).then((o) => `Sent ${o.count} again`), done: () => refresh() }),
      verb('Delete all', { danger: true, title: 'Delete all that were given up', run: (_, reason) => page.act('send.dead.delete', { all: true }, reason).then((o) => `Deleted ${o.count}`), done: () => refresh() })],
    show: (r) => table(['Id', 'To', { label: 'Input and error', class: 'grow' }, { label: 'Attempts', class: 'num opt' }, { label: 'Died', class: 'num opt' }, ''], r.messages.map((m) => ({
      key: String(m.id.rawJSON ?? m.id),
      cells: [m.id, [h('a', { href: link(m) }, address(m)), h('div.dim', m.method)], [m.input === undefined ? null : body(m.input), h('div.bad', m.code, ' ', m.error)], m.attempts, time(m.died),
        h('span.verbs',
          verb('Send again', { small: true, title: 'Send the message again', run: (_, reason) => page.act('send.dead.requeue', { ids: [m.id] }, reason), done: refresh }),
          verb('Delete', { small: true, danger: true, title: 'Delete the message', run: (_, reason) => page.act('send.dead.delete', { ids: [m.id] }, reason), done: refresh }))],
    })), { none: 'No message was given up.' }),
  });
  const refresh = () => { waiting.refresh(); dead.refresh(); };
  page.part.append(waiting.el, dead.el);
}
