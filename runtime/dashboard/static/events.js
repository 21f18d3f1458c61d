// The events of an actor as they happen, from the oldest kept one on.

import { h } from './dom.js';
import { actorPath, events } from './api.js';
import { badge, button, fault, moment, table } from './ui.js';
import { body } from './queues.js';
import { latest } from './format.js';
import { parse } from './json.js';

const kept = 300;

export default function show(page) {
  let list = [];
  let state = 'opening';
  let held = false;
  const hold = button('Hold', () => { held = !held; hold.textContent = held ? 'Go on' : 'Hold'; if (!held) draw(); });
  const part = page.section({
    title: 'Events', cls: 'flush', actions: hold,
    show: (rows) => [h('p.live', badge(state, state === 'live' ? 'good' : 'warn')),
      table([{ label: '#', class: 'num' }, 'Time', 'Event', { label: 'Data', class: 'grow' }, { label: 'Version', class: 'num opt' }], rows.map((e) => ({
        key: e.n, class: e.event.startsWith('cairn.') ? 'mark' : null, cells: [e.id.split('@')[0], moment(e.time), e.event, e.data === undefined ? '' : body(e.data), e.version ?? ''],
      })), { none: 'No events yet.' })],
  });
  const draw = () => { if (!held) part.set(list); };
  page.part.append(part.el);
  draw();
  let n = 0;
  follow();
  async function follow() {
    try {
      for await (const e of events(actorPath(page.actor) + 'events', { signal: page.signal, query: 'after=0' })) {
        if (e.event === 'dashboard.open') state = 'live';
        else if (e.event === 'dashboard.lost') state = 'lost';
        else if (e.event) list = latest([{ ...e, n: n++, id: e.id ?? '', data: e.data === undefined ? undefined : parse(e.data), size: e.data?.length }, ...list], kept);
        draw();
      }
    } catch (e) {
      if (page.signal.aborted) return;
      state = 'not live';
      draw();
      page.part.append(fault(e));
    }
  }
}
