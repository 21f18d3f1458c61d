// The parts that pages are made of.

import { h, patch } from './dom.js';
import { Fault } from './api.js';
import { isRaw, mark, stringify } from './json.js';
import { ago, clock } from './format.js';

// badge shows a state: in words, and with a colour.
const tones = {
  awake: 'good', completed: 'good', ok: 'good', ready: 'good', done: 'good', open: 'info', live: 'good',
  running: 'info', pending: 'info', processing: 'info', building: 'info', sleeping: 'quiet', waiting: 'info', asleep: 'quiet',
  paused: 'warn', cancelling: 'warn', rolling_back: 'warn', delayed: 'warn', held: 'warn', cancelled: 'quiet', terminated: 'quiet', closed: 'quiet',
  failed: 'bad', error: 'bad', dead: 'bad', lost: 'bad', read_only: 'bad',
};
export const badge = (state, tone) => h('span.badge', { class: tone ?? tones[state] ?? 'quiet' }, String(state).replaceAll('_', ' '));

// time shows how long ago something was, with the exact time on hover.
export const time = (t) => h('time', { title: t ? new Date(t).toISOString() : null }, ago(t));
export const moment = (t) => h('time', { title: t ? String(t) : null }, clock(t));

export const button = (label, onclick, props = {}) => h('button', { type: 'button', onclick, ...props }, label);

export const empty = (text, ...more) => h('p.empty', text, ...more);

export const note = (...children) => h('p.note', children);

export const kbd = (...keys) => keys.map((k) => h('kbd', k));

// fault shows an error.
export function fault(e) {
  const id = e.metadata?.error_id;
  return h('div.fault', { role: 'alert' }, h('strong', e instanceof Fault ? e.code : 'error'), ' ', e.message, id ? [' ', h('code', id)] : null);
}

// facts is a list of names and values. A value of null leaves its name out.
export function facts(...pairs) {
  return h('dl.facts', pairs.filter((p) => p && p[1] !== null && p[1] !== undefined).map(([name, v]) => h('div', h('dt', name), h('dd', v))));
}

// table shows rows: {key, cells, href, class}. A column is a label or {label, class}: num is for numbers, opt is left out on
// a phone, grow takes the room that is left, wraps breaks its lines.
export function table(columns, rows, { none = 'Nothing here.', caption } = {}) {
  if (!rows.length) return empty(none);
  const cols = columns.map((c) => typeof c === 'string' ? { label: c } : c);
  return h('div.scroll', h('table', { 'aria-label': caption },
    h('thead', h('tr', cols.map((c) => h('th', { scope: 'col', class: c.class }, c.label)))),
    h('tbody', rows.map((r) => h('tr', {
      key: r.key, class: [r.class, r.href || r.onopen ? 'opens' : ''].filter(Boolean).join(' ') || null,
      'aria-selected': r.selected === undefined ? null : String(r.selected),
      onclick: r.href || r.onopen ? (e) => {
        if (e.target.closest('a, button, input, summary') || getSelection().toString()) return;
        if (r.onopen) r.onopen(); else location.hash = r.href;
      } : null,
    }, r.cells.map((c, i) => h('td', { class: cols[i]?.class },
      i === 0 && r.href ? h('a.row', { href: r.href }, c) : i === 0 && r.onopen ? h('button.row', { type: 'button', onclick: r.onopen }, c) : c)))))));
}

// tabs are links between the parts of a page.
export function tabs(list, current, label) {
  return h('nav.tabs', { 'aria-label': label }, list.map(([id, name, href, count]) =>
    h('a', { href, key: id, 'aria-current': id === current ? 'page' : null }, name, count ? h('span.count', String(count)) : null)));
}

// json shows a value with colours, at most max characters of it.
export function json(v, { max = 20_000 } = {}) {
  if (v === undefined) return h('span.dim', 'none');
  const pre = h('pre.json', { tabindex: '0' });
  if (!write(v, max, (cls, text) => pre.appendChild(cls ? h('span.' + cls, text) : document.createTextNode(text)))) {
    pre.keep = mark(stringify(v)); // so that all of it stays
    pre.append(h('span.dim', '… cut off; ', button('show all', () => { pre.textContent = text(v); }, { class: 'link' })));
  }
  return pre;
}

// text is a value as json shows it, all of it.
export function text(v) {
  const out = [];
  write(v, Infinity, (_, s) => out.push(s));
  return out.join('');
}

// write calls out with the pieces of a value, up to room characters, and reports whether that was all.
function write(v, room, out) {
  const put = (cls, text) => {
    if (room <= 0) return;
    room -= text.length;
    out(cls, text);
  };
  const walk = (x, indent) => {
    if (room <= 0) return;
    const inner = indent + '  ';
    if (x === null) put('nil', 'null');
    else if (isRaw(x)) put('num', x.rawJSON);
    else if (typeof x === 'string') put('str', JSON.stringify(x));
    else if (typeof x !== 'object') put(typeof x === 'number' ? 'num' : 'nil', String(x));
    else {
      const list = Array.isArray(x);
      const names = list ? x.map((_, i) => i) : Object.keys(x);
      const flat = names.length === 0 || list && names.length < 72 && x.every((y) => y === null || typeof y !== 'object' || isRaw(y)) && stringify(x).length < 72;
      put('', list ? '[' : '{');
      names.every((name, i) => {
        put('', (i ? ',' : '') + (flat ? (i ? ' ' : '') : '\n' + inner));
        if (!list) { put('name', JSON.stringify(name)); put('', ': '); }
        walk(x[name], inner);
        return room > 0;
      });
      put('', (flat ? '' : '\n' + indent) + (list ? ']' : '}'));
    }
  };
  walk(v, '');
  return room > 0;
}

// say shows a short message that goes by itself.
let sayTimer;
export function say(text, tone = 'good') {
  let box = document.getElementById('say');
  if (!box) document.body.append(box = h('div', { id: 'say', role: 'status', 'aria-live': 'polite' }));
  patch(box, h('div.toast', { class: tone, key: text }, text));
  clearTimeout(sayTimer);
  sayTimer = setTimeout(() => patch(box), 6000);
}

// field makes a labelled input: {name, label, type, value, options, rows, hint, required, placeholder}.
export function field(f) {
  const common = { name: f.name, placeholder: f.placeholder, required: f.required, value: f.value ?? '', spellcheck: 'false', autocomplete: 'off' };
  let input;
  if (f.type === 'select') input = h('select', { name: f.name, value: f.value }, f.options.map((o) => h('option', { value: o }, o)));
  else if (f.type === 'area') input = h('textarea', { ...common, rows: f.rows ?? 6 });
  else if (f.type === 'check') return h('label.check', h('input', { type: 'checkbox', name: f.name, checked: f.value }), f.label);
  else input = h('input', { ...common, type: f.type ?? 'text', min: f.min, step: f.step });
  return h('label.field', h('span', f.label), input, f.hint ? h('small', f.hint) : null);
}

// values reads what is in the fields of a form.
export function values(form) {
  const out = {};
  for (const el of form.elements) if (el.name) out[el.name] = el.type === 'checkbox' ? el.checked : el.value;
  return out;
}

// dialog shows a form over the page and resolves when it is closed. run gets the values; a Fault that it throws is shown,
// and the dialog stays.
export function dialog({ title, text, fields = [], submit = 'OK', danger, confirm, run, body, wide }) {
  return new Promise((resolve) => {
    const trouble = h('div');
    const go = h('button', { class: danger ? 'danger' : 'primary', disabled: Boolean(confirm) }, submit);
    let result;
    const box = h('dialog', { class: wide ? 'wide' : null, 'aria-label': title },
      h('form', {
        onsubmit: async (e) => {
          e.preventDefault();
          go.disabled = true;
          try {
            result = await run(values(e.target));
            box.close();
            box.remove(); // at once: until it is gone, its field has the focus and takes the keys
          } catch (err) {
            patch(trouble, fault(err));
            go.disabled = false;
          }
        },
      },
      h('h2', title), text ? h('p', text) : null, body ?? null, fields.map(field),
      confirm ? h('label.field', h('span', 'Type ', h('code', confirm), ' to confirm'), h('input', {
        autocomplete: 'off', spellcheck: 'false', name: 'confirm', oninput: (e) => { go.disabled = e.target.value !== confirm; },
      })) : null,
      trouble,
      h('div.actions', button('Cancel', () => box.close()), go)));
    box.onclose = () => { box.remove(); resolve(result); };
    document.body.append(box);
    box.showModal();
    const first = box.querySelector('input:not([type=checkbox]), textarea, select') ?? go;
    first.focus();
    if (first.type === 'textarea') first.setSelectionRange(0, 0); // it begins at the top
  });
}

let lastReason = '';

// reasonOf is the reason in the values of a dialog.
export function reasonOf(v) {
  const reason = v.reason.trim();
  if (!reason) throw new Fault('invalid_argument', 'A reason is needed.');
  return reason;
}

// verb is a button for something that changes data. Its dialog always asks for a reason, which the node is told. fields may be a function.
export function verb(label, { title = label, text, fields = [], danger, confirm, submit = label, run, done, small, wide }) {
  return button(label, () => dialog({
    title, text, danger, confirm, wide, submit: submit.replace('…', ''),
    fields: [...typeof fields === 'function' ? fields() : fields, { name: 'reason', label: 'Reason', required: true, value: lastReason, placeholder: 'ticket 4711', hint: 'Sent with the request.' }],
    run: async (v) => {
      const reason = reasonOf(v);
      const said = await run(v, reason);
      lastReason = reason;
      say(typeof said === 'string' ? said : label.replace('…', '') + ': done');
      done?.();
      return true;
    },
  }), { class: [danger ? 'danger' : '', small ? 'small' : ''].join(' ') });
}
