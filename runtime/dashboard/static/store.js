// The key-value store of an actor, in seven pages.

import { h } from './dom.js';
import { tabs } from './ui.js';

const pages = {
  overview: ['Overview', () => import('./store_overview.js')], entries: ['Entries', () => import('./store_entries.js')],
  queue: ['Queue', () => import('./queues.js')], search: ['Search', () => import('./store_search.js')],
  watch: ['Watch', () => import('./store_watch.js')], atomic: ['Atomic', () => import('./store_atomic.js')],
  metrics: ['Metrics', () => import('./store_metrics.js')],
};

export default async function store(page) {
  const id = pages[page.rest[0]] ? page.rest[0] : 'overview';
  page.part.append(tabs(Object.entries(pages).map(([t, [name]]) => [t, name, page.at('store/' + t)]), id, 'Pages of the store'));
  const body = h('div.part');
  page.part.append(body);
  page.part.querySelector('[aria-current]').scrollIntoView({ block: 'nearest', inline: 'center' });
  page.part = body;
  const module = await pages[id][1]();
  if (!page.signal.aborted) await module.default(page);
}
