// The frame around the pages: routes, token, theme and keyboard.

import { h, patch } from './dom.js';
import { askAgain, base, get, hasToken, ofActor, onUnauthenticated, setToken, unsegment, Fault } from './api.js';
import { button, dialog, fault, kbd, say } from './ui.js';
import { Page } from './page.js';
import { address, link, parseAddress } from './format.js';

const pages = {
  overview: { name: 'Overview', key: 'o', load: () => import('./overview.js'), icon: 'M3 13h8V3H3zm0 8h8v-6H3zm10 0h8V11h-8zm0-18v6h8V3z' },
  actors: { name: 'Actors', key: 'a', load: () => import('./actors.js'), icon: 'M12 2l9 5v10l-9 5-9-5V7zm0 2.3L5.2 8 12 11.7 18.8 8zM5 9.7v6.2l6 3.3v-6.2zm14 0-6 3.3v6.2l6-3.3z' },
  runs: { name: 'Workflows', key: 'w', load: () => import('./runs.js'), icon: 'M4 4h6v5H8v3h8V9h-2V4h6v5h-2v5h-5v2h2v5H9v-5h2v-2H6V9H4z' },
  traces: { name: 'Traces', key: 't', load: () => import('./traces.js'), icon: 'M3 5h11v3H3zm4 5.5h11v3H7zM11 16h10v3H11z' },
  audit: { name: 'Audit log', key: 'l', load: () => import('./audit.js'), icon: 'M5 3h11l4 4v14H5zm2 2v14h11V8h-3V5zm2 6h7v2H9zm0 4h7v2H9z' },
  feed: { name: 'Live feed', key: 'f', load: () => import('./feed.js'), icon: 'M12 10a2 2 0 1 1 0 4 2 2 0 0 1 0-4M7.8 7.8l1.4 1.4a4 4 0 0 0 0 5.6l-1.4 1.4a6 6 0 0 1 0-8.4m8.4 0a6 6 0 0 1 0 8.4l-1.4-1.4a4 4 0 0 0 0-5.6zM4.9 4.9l1.4 1.4a8 8 0 0 0 0 11.4l-1.4 1.4a10 10 0 0 1 0-14.2m14.2 0a10 10 0 0 1 0 14.2l-1.4-1.4a8 8 0 0 0 0-11.4z' },
};
const inner = { actor: { in: 'actors', load: () => import('./actor.js') }, trace: { in: 'traces', load: () => import('./trace.js') } };

const icon = (d) => h('svg', { viewBox: '0 0 24 24', 'aria-hidden': 'true', width: 18, height: 18 }, h('path', { d }));

const content = h('main', { id: 'content', tabindex: '-1' });
const banner = h('div', { id: 'banner' });
const side = h('nav', { id: 'side', 'aria-label': 'Pages' });
const crumbs = h('div', { id: 'crumbs' });
const bar = h('header', { id: 'bar' }, crumbs,
  button([h('span', 'Go to actor'), kbd('/')], () => goToActor(), { id: 'jump' }),
  button('?', () => help(), { id: 'help', 'aria-label': 'Keyboard shortcuts', title: 'Keyboard shortcuts' }),
  button('◐', () => theme(), { id: 'theme', 'aria-label': 'Light or dark', title: 'Light or dark' }));

let page = null;

// route shows the page that the fragment of the address names.
async function route() {
  if (takeToken()) return;
  askAgain();
  const [where, search] = location.hash.slice(1).split('?');
  const path = where.split('/').filter(Boolean);
  const name = pages[path[0]] || inner[path[0]] ? path.shift() : 'overview';
  const known = pages[name] ?? inner[name];
  const sameView = page && page.name === name && page.reuse?.(path, new URLSearchParams(search));
  patch(side, h('a.brand', { href: '#/overview' }, mark(), h('span', 'Cairn')), Object.entries(ofActor() ? {} : pages).map(([id, p]) =>
    h('a', { href: '#/' + id, 'aria-current': id === (known.in ?? name) ? 'page' : null, title: `${p.name} (g ${p.key})` }, icon(p.icon), h('span', p.name))));
  if (sameView) return;
  page?.abort.abort();
  const root = h('div', { class: 'page ' + name });
  let decoded;
  try { decoded = path.map((s) => unsegment(s)); } catch { decoded = []; }
  const mine = page = new Page(root, decoded, new URLSearchParams(search));
  mine.raw = path;
  mine.name = name;
  mine.crumbs = (...list) => { if (page === mine) patch(crumbs, list.map(([text, href], i) => [i ? h('span.sep', '/') : null, href ? h('a', { href }, text) : h('span', text)])); };
  mine.crumbs([(pages[name] ?? pages[known.in]).name]);
  mine.title((pages[name] ?? pages[known.in]).name);
  patch(content);
  content.append(root);
  try {
    const module = await known.load();
    if (page === mine) await module.default(mine);
    root.dataset.ready = 'yes';
    performance.mark(mine.name); // tests read it
  } catch (e) {
    if (page !== mine || e.name === 'AbortError') return;
    if (!(e instanceof Fault)) console.error(e);
    patch(root, fault(e));
  }
}

// takeToken takes a token out of the address, so that neither the history nor a copied address has it.
function takeToken() {
  if (!location.hash.startsWith('#token=')) return false;
  const given = new URLSearchParams(location.hash.slice(1));
  setToken(given.get('token'));
  const to = given.get('to') ?? '';
  history.replaceState(null, '', '#' + (to.startsWith('/') ? to : '/overview'));
  looked = false;
  greet();
  route();
  return true;
}

const mark = () => h('svg', { viewBox: '0 0 32 32', width: 22, height: 22, 'aria-hidden': 'true', class: 'mark' },
  h('path', { d: 'M4 26a12 4.6 0 1 0 24 0a12 4.6 0 1 0-24 0M8.100 16.600a8.400 3.900 0 1 0 16.800 0a8.400 3.900 0 1 0-16.800 0M10.600 8.600a5 3.200 0 1 0 10 0a5 3.200 0 1 0-10 0' }));

// askToken asks for the token of the node, or of an actor.
function askToken(message) {
  const wrong = hasToken();
  setToken('');
  return dialog({
    title: 'This node asks for a token', submit: 'Continue',
    text: wrong ? 'The node refused the token: ' + message + '.' : 'It is kept in the memory of this page only, and sent to this node only.',
    fields: [{ name: 'token', label: 'Token', type: 'password', required: true }],
    run: async (v) => {
      setToken(v.token.trim());
      return true;
    },
  }).then((ok) => {
    if (!ok) throw new Fault('unauthenticated', 'The node asks for a token.');
    looked = false;
    greet();
  });
}

// greet says what one should know about the access that this page has.
let looked = false;
async function greet() {
  if (looked) return;
  looked = true;
  if (ofActor()) {
    patch(banner, h('p', 'This token opens one actor. What it does not allow answers ', h('code', 'permission_denied'), '.'));
    return;
  }
  try {
    const r = await fetch(new URL('actors?limit=1&brief=true', base), { credentials: 'omit', cache: 'no-store' });
    const local = /^(localhost|.*\.localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(location.hostname);
    patch(banner, r.ok ? h('p', { class: local ? '' : 'bad' }, h('strong', 'No token.'), local
      ? ' Every program on this machine may do what this page may. Set CAIRN_TOKEN to ask for one.'
      : ' Everyone who reaches this node may do what this page may.') : null);
  } catch { /* the page says that the node does not answer */ }
}

async function goToActor() {
  await dialog({
    title: 'Go to actor', submit: 'Open',
    fields: [{ name: 'address', label: 'Address', placeholder: 'TYPE/KEY', required: true }],
    run: async (v) => { location.hash = link(parseAddress(v.address)); },
  });
}

const shortcuts = [
  ['/', 'go to an actor by its address'],
  ...Object.values(pages).map((p) => ['g ' + p.key, p.name.toLowerCase()]),
  ['j k', 'next and previous row'], ['Enter', 'open the row'], ['[ ]', 'previous and next tab'], ['u', 'one level up'],
  ['f', 'filter'], ['Esc', 'close, or leave a field'], ['?', 'this list'],
];

const help = () => dialog({
  title: 'Keyboard', submit: 'Close', run: async () => {},
  body: h('dl.keys', shortcuts.map(([keys, what]) => h('div', h('dt', kbd(...keys.split(' '))), h('dd', what)))),
});

function theme() {
  const dark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  document.documentElement.dataset.theme = dark ? 'light' : 'dark';
}

let prefix = false; // g was pressed, and the next key names a page

// move puts the focus on the next row, or the one before.
function move(by) {
  const rows = [...content.querySelectorAll('.row')];
  if (!rows.length) return;
  const at = rows.indexOf(document.activeElement);
  rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? (by > 0 ? 0 : rows.length - 1) : at + by))].focus();
}

function tab(by) {
  const all = [...content.querySelectorAll('.tabs')].pop();
  if (!all) return;
  const list = [...all.querySelectorAll('a')];
  const at = list.findIndex((a) => a.getAttribute('aria-current'));
  list[(at + by + list.length) % list.length]?.click();
}

function up() {
  const links = crumbs.querySelectorAll('a');
  if (links.length) links[links.length - 1].click();
}

document.addEventListener('keydown', (e) => {
  if (e.key === 'Escape' && e.target.matches('input, textarea, select') && !e.target.closest('dialog')) { e.target.blur(); return; }
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.matches('input, textarea, select') || document.querySelector('dialog[open]')) return;
  const keys = {
    '/': goToActor, '?': help, j: () => move(1), k: () => move(-1), '[': () => tab(-1), ']': () => tab(1), u: up,
    f: () => content.querySelector('input.filter')?.focus(), g: () => { prefix = true; },
  };
  const after = prefix && Object.entries(pages).find(([, p]) => p.key === e.key);
  prefix = false;
  const act = after ? () => { location.hash = '#/' + after[0]; } : keys[e.key];
  if (!act) return;
  e.preventDefault();
  act();
});

addEventListener('hashchange', route);
addEventListener('unhandledrejection', (e) => { if (e.reason?.name !== 'AbortError') say(e.reason?.message ?? 'That did not work.', 'bad'); });

onUnauthenticated(askToken);
document.body.append(h('a', { href: '#content', class: 'skip', onclick: (e) => { e.preventDefault(); content.focus(); } }, 'Skip to the content'), side, h('div', { id: 'frame' }, bar, banner, content));
if (!location.hash.startsWith('#token=')) greet();
route();
