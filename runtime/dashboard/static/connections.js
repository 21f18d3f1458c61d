// Connections of clients to an actor.

import { h } from './dom.js';
import { badge, table, time, verb } from './ui.js';

export default function connections(page) {
  const list = page.section({
    title: 'Connections', cls: 'flush', load: () => page.call('connection.list', { limit: 200 }),
    show: (r) => table([{ label: 'Connection', class: 'grow' }, 'State', 'Transport', { label: 'Events', class: 'opt' }, { label: 'Connected', class: 'num' }, ''], r.connections.map((c) => ({
      key: c.id, cells: [h('code', c.id), c.lost ? [badge('lost'), ' ', time(c.lost)] : badge('live'), c.transport, (c.events ?? []).join(', '), time(c.connected),
        h('span.verbs', verb('Close', { small: true, danger: true, title: 'Close a connection', run: (_, reason) => page.act('connection.close', { connection: c.id, reason }, reason), done: () => list.refresh() }))],
    })), { none: 'No client is connected.', caption: 'Connections' }),
  });
  page.part.append(list.el);
}
