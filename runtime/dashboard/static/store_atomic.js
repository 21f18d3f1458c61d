// One commit of checks and mutations, all or none.

import { h, patch } from './dom.js';
import { button, dialog, fault, json, reasonOf, say } from './ui.js';
import { parse, stringify } from './json.js';
import { keyOf } from './store_entries.js';

const ops = { put: 'value', delete: '', sum: 'value', min: 'value', max: 'value', append: 'value', prepend: 'value', delete_range: '', touch: '' };

export default function atomic(page) {
  const checks = h('div.rows');
  const mutations = h('div.rows');
  const result = h('div.result');
  const remove = (row) => button('×', () => row().remove(), { class: 'small', 'aria-label': 'Remove' });
  const key = (label) => h('input', { name: 'key', placeholder: 'key: users/7 or ["users",7]', 'aria-label': label, spellcheck: 'false' });
  const addCheck = () => {
    const kind = h('select', { name: 'kind', 'aria-label': 'Check' }, [['version', 'has version'], ['absent', 'is absent'], ['exists', 'exists'], ['value', 'equals']].map(([v, t]) => h('option', { value: v }, t)));
    const value = h('input', { name: 'value', placeholder: '42', 'aria-label': 'Expected', spellcheck: 'false' });
    kind.onchange = () => { value.hidden = kind.value === 'absent' || kind.value === 'exists'; };
    const row = h('div.row-form', key('Key of the check'), kind, value, remove(() => row));
    checks.append(row);
  };
  const addMutation = () => {
    const op = h('select', { name: 'op', 'aria-label': 'Operation' }, Object.keys(ops).map((o) => h('option', { value: o }, o.replace('_', ' '))));
    const value = h('input', { name: 'value', placeholder: 'value, as JSON', 'aria-label': 'Value', spellcheck: 'false' });
    const ttl = h('input', { name: 'ttl', type: 'number', min: 0, placeholder: 'ms to live', 'aria-label': 'Milliseconds to live' });
    op.onchange = () => { value.hidden = !ops[op.value]; ttl.hidden = op.value.startsWith('delete'); };
    const row = h('div.row-form', op, key('Key of the mutation'), value, ttl, remove(() => row));
    mutations.append(row);
  };
  const get = (row, name) => row.querySelector(`[name=${name}]`)?.value ?? '';
  function commit() {
    const out = { checks: [], mutations: [] };
    for (const row of checks.children) {
      const k = { key: keyOf(get(row, 'key')) };
      const kind = get(row, 'kind');
      if (kind === 'version') k.version = parse(get(row, 'value'));
      else if (kind === 'value') k.value = parse(get(row, 'value'));
      else k.exists = kind === 'exists';
      out.checks.push(k);
    }
    for (const row of mutations.children) {
      const op = get(row, 'op');
      const m = op === 'delete_range' ? { op, prefix: keyOf(get(row, 'key')) } : { op, key: keyOf(get(row, 'key')) };
      if (ops[op]) m.value = parse(get(row, 'value'));
      if (get(row, 'ttl') && !op.startsWith('delete')) m.ttl_ms = Number(get(row, 'ttl'));
      out.mutations.push(m);
    }
    return out;
  }
  async function ask() {
    let input;
    try { input = commit(); } catch (e) { patch(result, fault(e)); return; }
    const out = await dialog({
      title: 'Commit', submit: 'Commit', wide: true, body: h('pre.json', stringify(input, 2)), fields: [{ name: 'reason', label: 'Reason', required: true, placeholder: 'ticket 4711' }],
      run: (v) => page.act('kv.commit', input, reasonOf(v), { create: true }),
    });
    if (!out) return;
    if (out.ok) say('Committed as version ' + (out.version ?? '–'));
    patch(result, out.ok ? h('p.good', 'Done.') : h('p.bad', 'Nothing was done: these checks failed: ', (out.failed ?? []).map((i) => i + 1).join(', ')), json(out));
  }
  page.part.append(h('section.panel', h('header', h('h2', 'Atomic commit'), h('div.actions', button('Commit…', ask, { class: 'primary' }))), h('div.body',
    h('h3', 'Checks ', h('small.dim', 'if one fails, nothing is done')), checks, button('+ check', addCheck, { class: 'link' }),
    h('h3', 'Mutations'), mutations, button('+ mutation', addMutation, { class: 'link' }), result)));
  addMutation();
}
