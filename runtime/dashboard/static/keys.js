// Every key that an actor stores, by kind, with the keys in readable form.

import { h, patch } from './dom.js';
import { button, json, moment, table } from './ui.js';
import { bytes, number } from './format.js';
import { short } from './json.js';
import { stored, unbase64 } from './cbor.js';

const size = 100;
const kinds = {
  '01': 'persisted', '02': 'connection', '03': 'inspector-token', '04': 'kv', '05': 'queue', '06': 'queue-metadata', '07': 'workflow', '08': 'trace', '09': 'sqlite',
  '10': 'alarm', '11': 'expiry', '12': 'idempotency', '13': 'received', '14': 'outgoing', '15': 'failed-send', '16': 'event', '17': 'queue-ready', '18': 'queue-delayed',
  '19': 'queue-stats', '1a': 'dead-letter', '1b': 'queue-dedup', '1c': 'queue-reply', '1d': 'schedule', '1e': 'schedule-run', '1f': 'stream', '20': 'stream-item',
  '21': 'control', '22': 'run', '23': 'kv-scope', '24': 'kv-count', '25': 'kv-group', '26': 'kv-version', '27': 'kv-pin', '28': 'uuid', '29': 'kv-purge', '2a': 'kv-index',
  '2b': 'kv-handled', '2c': 'kv-branch', '2d': 'kv-branch-entry', '2e': 'token', '2f': 'usage', '30': 'attribute',
};

const base64url = (b) => btoa(String.fromCharCode(...b)).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
const hex = (b) => [...b].map((x) => x.toString(16).padStart(2, '0')).join(' ');

// before is a key that sorts behind all keys of the kind before, and before all of this kind.
function before(kind) {
  const b = parseInt(kind, 16) - 1;
  return base64url([b, 255, 255, 255, 255, 255, 255, 255, 255]);
}

export default function keys(page) {
  const kind = page.query.get('kind') ?? '';
  const after = page.query.get('after') ?? '';
  const choose = h('select', { 'aria-label': 'Kind', onchange: (e) => page.setQuery({ kind: e.target.value, after: '' }) },
    h('option', { value: '' }, 'all kinds'), Object.entries(kinds).map(([n, name]) => h('option', { value: n }, `${n} ${name}`)));
  choose.value = kind;
  const shown = h('div.key-value');
  const list = page.section({
    title: 'Keys', cls: 'flush', ms: 5000, actions: choose,
    load: () => page.get('keys?' + new URLSearchParams({ limit: size, value_bytes: 200, after: after || (kind ? before(kind) : '') })),
    show: (r) => {
      const rows = r.keys.map((k) => [k, unbase64(k.key)]).filter(([, b]) => !kind || b[0] === parseInt(kind, 16));
      const more = r.next && rows.length === r.keys.length;
      return [table(['Kind', { label: 'Key', class: 'key' }, { label: 'Value', class: 'clip opt' }, { label: 'Size', class: 'num' }, { label: 'Version', class: 'num opt' }, { label: 'Changed', class: 'num opt' }],
        rows.map(([k, b]) => {
          const n = hex(b.slice(0, 1));
          return { key: k.key, onopen: () => open(k), cells: [h('span.dim', `${n} ${kinds[n] ?? ''}`), h('code', { title: hex(b) }, k.text), h('code.dim', preview(k, b[0])), bytes(k.size), number(k.version), moment(k.updated)] };
        }), { none: kind ? 'No keys of this kind.' : 'No keys.', caption: 'Keys' }),
      h('div.pager', after ? button('← First', () => page.setQuery({ after: '' })) : null, more ? button('Next →', () => page.setQuery({ after: r.next })) : null)];
    },
  });
  // open shows the whole value of a key, up to 64 KiB.
  async function open(k) {
    const b = unbase64(k.key);
    const r = await page.get('keys?' + new URLSearchParams({ limit: 1, value_bytes: 65536, after: previous(b) }));
    const found = r.keys.find((x) => x.key === k.key) ?? k;
    const value = unbase64(found.value ?? '');
    const known = value.length === found.size ? stored(b[0], value) : undefined;
    patch(shown, h('section.panel', h('header', h('h2', found.text), h('div.actions', button('Close', () => patch(shown)))),
      h('div.body', h('p.dim', `${bytes(found.size)}, version ${found.version}`), known === undefined ? null : json(known), h('pre.hex', dump(value)))));
    shown.scrollIntoView({ block: 'nearest' });
  }
  page.part.append(list.el, shown);
}

// previous is a key right before b.
function previous(b) {
  if (b[b.length - 1] === 0) return base64url(b.slice(0, -1));
  const p = [...b];
  p[p.length - 1]--;
  return base64url([...p, 255, 255, 255, 255]);
}

const printable = (x) => x >= 32 && x < 127 ? String.fromCharCode(x) : '·';

// preview is a value in one line: as what it means, if all of it is there.
function preview(k, kind) {
  if (!k.value) return '';
  const value = unbase64(k.value);
  const known = value.length === k.size ? stored(kind, value) : undefined;
  return known === undefined ? [...value.subarray(0, 64)].map(printable).join('') : short(known, 90);
}

function dump(b) {
  const lines = [];
  for (let i = 0; i < b.length; i += 16) {
    const row = b.slice(i, i + 16);
    lines.push(i.toString(16).padStart(6, '0') + '  ' + hex(row).padEnd(47) + '  ' + [...row].map(printable).join(''));
  }
  return lines.join('\n') || '(empty)';
}
