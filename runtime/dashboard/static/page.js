// What a page gets from the router: a root, a signal that is aborted when the page is left, and data that stays fresh.

import { h, patch } from './dom.js';
import { pause, seen } from './api.js';
import { fault } from './ui.js';

export class Page {
  constructor(root, path, query) {
    this.root = root;
    this.path = path;
    this.query = query;
    this.abort = new AbortController();
    this.signal = this.abort.signal;
  }

  title(text) { document.title = text + ' · Cairn'; }

  // setQuery changes the parameters of the page in its address, and shows the page anew unless quiet.
  setQuery(change, quiet) {
    const q = new URLSearchParams(this.query);
    for (const [k, v] of Object.entries(change)) if (v) q.set(k, v); else q.delete(k);
    this.query = q;
    const hash = location.hash.split('?')[0] + (String(q) ? '?' + q : '');
    if (quiet) history.replaceState(null, '', hash); else location.hash = hash;
  }

  // live runs f now and then again and again, ms after it has ended, while the page can be seen.
  async live(f, ms = 3000) {
    for (;;) {
      await seen(this.signal);
      if (this.signal.aborted) return;
      await f();
      if (!ms) return;
      await pause(ms, this.signal);
    }
  }

  // section is a titled part of the page. load fetches its data, show makes nodes of them, and both run again every ms. Without
  // load, set gives it data, and what comes within a moment is drawn at once. form stands above the data, also if there is a fault.
  section({ title, load, show, ms = 3000, actions, cls, form }) {
    const body = h('div.body', load ? h('p.loading', { 'aria-busy': 'true' }, 'Loading') : null);
    const side = h('div.actions', actions);
    const el = h('section.panel', { class: cls, keep: title }, title ? h('header', h('h2', title), side) : null, form, body);
    let last;
    let drawn = -Infinity;
    let pace = 100; // between two drawings, in ms: a long list that always changes leaves most of the time to its reader
    let due = false;
    const render = () => {
      const began = performance.now();
      if (last !== undefined) patch(body, show(last));
      drawn = performance.now();
      pace = Math.max(100, 4 * (drawn - began));
    };
    const soon = () => {
      const wait = drawn + pace - performance.now();
      if (wait <= 0) return render();
      if (!due) pause(wait, this.signal).then(() => { due = false; if (!this.signal.aborted) render(); });
      due = true;
    };
    let turn = 0;
    const refresh = async () => {
      const mine = ++turn;
      try {
        const data = await load(this.signal);
        if (this.signal.aborted || mine !== turn) return;
        last = data;
        render();
      } catch (e) {
        if (this.signal.aborted || mine !== turn) return;
        if (!e.code) console.error(e);
        patch(body, fault(e));
      }
    };
    if (load) this.live(refresh, ms);
    return { el, refresh, render, side, set: (data) => { last = data; soon(); } };
  }
}
