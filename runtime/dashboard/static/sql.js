// A console for the actor's database. It reads; writing is unlocked with a reason.

import { h, patch } from './dom.js';
import { actorPath, send } from './api.js';
import { button, dialog, empty, facts, fault, note, reasonOf, table } from './ui.js';
import { address, bytes, number, plain, span } from './format.js';
import { isRaw } from './json.js';

const last = new Map(); // what was typed, by actor

export default function sql(page) {
  const id = address(page.actor);
  let reason = ''; // of writing; "" is locked
  const result = h('div.result');
  const editor = h('textarea.sql', {
    'aria-label': 'SQL', spellcheck: 'false', rows: 5, value: last.get(id) ?? 'SELECT name, sql FROM sqlite_schema ORDER BY name',
    onkeydown: (e) => { if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) { e.preventDefault(); run(); } },
  });
  const lock = h('div.actions');
  const go = button([h('span', 'Run'), ' ', h('kbd', 'Ctrl ↵')], () => run(), { class: 'primary' });
  const console = h('section.panel', h('header', h('h2', 'SQL'), lock), h('div.body', editor, h('div.actions', go, button('Export database', () => save(page))), result));
  const draw = () => {
    patch(lock, reason ? [h('span.badge', { class: 'bad' }, 'writing'), button('Lock', () => { reason = ''; draw(); })]
      : [h('span.badge', { class: 'quiet' }, 'read-only'), button('Unlock…', unlock)]);
    console.classList.toggle('armed', reason !== '');
  };
  const unlock = () => dialog({
    title: 'Write to the database of ' + id, danger: true, submit: 'Unlock', text: 'Until you lock it again, each statement runs in a transaction that is committed. The actor may rely on what you change.',
    fields: [{ name: 'reason', label: 'Reason', required: true, placeholder: 'ticket 4711', hint: 'Sent with each statement, and logged.' }],
    run: async (v) => { reason = reasonOf(v); draw(); },
  });
  async function run() {
    last.set(id, editor.value);
    go.disabled = true;
    const began = performance.now();
    try {
      const out = reason ? await page.act('sql.exec', { sql: editor.value, limit: 1000, reason }, reason) : await page.call('sql.query', { sql: editor.value, limit: 1000 });
      patch(result, rows(out, performance.now() - began));
      if (reason) tables.refresh();
    } catch (e) {
      patch(result, fault(e));
    }
    go.disabled = false;
  }
  let list = null;
  let awake = false; // a statement does not wake the actor then
  page.onstatus = (s) => { const was = awake; awake = s?.state === 'awake'; if (awake && !was) tables.refresh(); };
  const tables = page.section({
    title: 'Database', ms: 10_000,
    load: async () => {
      const status = await page.call('sql.status');
      if (status.exists && (list || awake)) list = await page.call('sql.query', { sql: "SELECT name, type FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%' ORDER BY name", limit: 500 });
      return { status, list };
    },
    show: ({ status, list }) => status.exists ? [
      facts(['Size', bytes(status.bytes)], ['Changes', number(status.sequence)], ['Migrations', number(status.migrations)], status.pending?.length ? ['Not applied', status.pending.join(', ')] : null),
      !list ? [h('div.actions', button('List tables', () => { awake = true; tables.refresh(); })), note('A statement wakes the actor, if it sleeps.')] : h('ul.tables', list.rows.map(([name, type]) => h('li', button([h('code', name), type === 'view' ? h('span.dim', ' view') : null], () => {
        editor.value = `SELECT * FROM "${name.replaceAll('"', '""')}" LIMIT 100`;
        run();
      }, { class: 'link' }))))] : empty('It has no database.'),
  });
  draw();
  page.part.append(h('div.columns.narrow', tables.el, console));
}

function cell(v) {
  if (v === null) return h('span.dim', 'NULL');
  if (typeof v === 'object' && !isRaw(v)) return h('code.dim', 'x ' + (v.base64 ?? ''));
  return isRaw(v) ? v.rawJSON : String(v);
}

const count = (n) => `${number(n)} ${plain(n) === 1 ? 'row' : 'rows'}`;

function rows(out, ms) {
  const kind = (i) => out.rows.every((r) => typeof r[i] === 'number' || isRaw(r[i]) || r[i] === null) ? 'num' : 'wraps';
  return [note(out.columns.length ? count(out.rows.length) : count(out.changes) + ' changed', out.truncated ? ', cut off' : '', ` in ${span(ms)}`),
    out.columns.length ? table(out.columns.map((c, i) => ({ label: c.name, class: kind(i) })), out.rows.map((r, i) => ({ key: i, cells: r.map(cell) })), { none: 'No rows.', caption: 'Result' }) : null];
}

// save downloads the database. The request carries the token, so a plain link would not do.
async function save(page) {
  const r = await send('GET', actorPath(page.actor) + 'sqlite', { signal: page.signal });
  const url = URL.createObjectURL(await r.blob());
  h('a', { href: url, download: [page.actor.type, ...page.actor.key].join('-').replace(/[^\w.-]+/g, '_') + '.sqlite' }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
