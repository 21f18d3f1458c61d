// What an actor has used, by day.

import { table } from './ui.js';
import { bytes, number, seconds } from './format.js';

export default function usage(page) {
  const part = page.section({
    title: 'Usage', cls: 'flush', ms: 10_000,
    load: () => page.call('usage.get', {}),
    show: (r) => table([{ label: 'Day (UTC)', class: 'grow' }, { label: 'Calls', class: 'num' }, { label: 'Turns', class: 'num opt' }, { label: 'Time in handlers', class: 'num' },
      { label: 'Written', class: 'num opt' }, { label: 'Sent', class: 'num opt' }, { label: 'Stored', class: 'num' }], [...r.days].reverse().map((d) => ({
      key: d.day, cells: [d.day, number(d.calls), number(d.turns), seconds(d.handler_us / 1e6), bytes(d.bytes_written), bytes(d.bytes_sent), bytes(d.bytes_stored)],
    })), { none: 'Nothing was counted.', caption: 'Usage' }),
  });
  page.part.append(part.el);
}
