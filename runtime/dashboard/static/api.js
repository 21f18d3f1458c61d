// The node's HTTP API, which the command cairn uses as well: docs/http.md.

import { parse, stringify } from './json.js';

export const base = new URL('../', location.href.split('#')[0]);

let token = '';
let ask = null; // shows the dialog for a token and resolves once there is another
let asking = null;
let declined = false; // nobody has given a token when they were asked

export const setToken = (t) => { token = t; };
export const hasToken = () => token !== '';
// ofActor reports whether the token is one of an actor: it opens that actor, or only its key-value store.
export const ofActor = () => token.startsWith('cairn_');
export const onUnauthenticated = (f) => { ask = f; };
// askAgain lets the next request that needs a token ask for one, although nobody gave one before.
export const askAgain = () => { declined = false; };

// A Fault is an error of the API, or of the way to it.
export class Fault extends Error {
  constructor(code, message, metadata = {}, status = 0) {
    super(message);
    this.code = code;
    this.metadata = metadata;
    this.status = status;
  }
}

// typed is the value of JSON that a person has typed.
export function typed(text) {
  try { return parse(text); } catch (e) { throw new Fault('invalid_argument', e.message); }
}

const random = (n) => [...crypto.getRandomValues(new Uint8Array(n))].map((b) => b.toString(16).padStart(2, '0')).join('');

// send makes a request and returns the response. It asks for a token if the node wants one. reason says why an operator
// changes something.
export async function send(method, path, { body, json, headers = {}, signal, reason } = {}) {
  for (;;) {
    const h = { ...headers };
    if (token) h.Authorization = 'Bearer ' + token;
    if (json !== undefined) h['Content-Type'] = 'application/json';
    if (reason) h['Cairn-Reason'] = encodeURIComponent(reason);
    else h.Traceparent = `00-${random(16)}-${random(8)}-00`; // looking is not recorded in the traces that are looked at
    const used = token;
    let r;
    try {
      r = await fetch(new URL(path, base), {
        method, headers: h, signal, body: json !== undefined ? stringify(json) : body,
        credentials: 'omit', cache: 'no-store', redirect: 'error',
      });
    } catch (e) {
      if (e.name === 'AbortError') throw e;
      throw new Fault('unavailable', 'The node does not answer.');
    }
    if (r.ok) return r;
    const text = await r.text();
    let e = {};
    try { e = JSON.parse(text); } catch { /* not from the API */ }
    if (r.status === 401 && ask && !declined && !(ofActor() && !path.includes('/-/'))) { // a token of an actor may be right, and the path not its
      if (used === token) await (asking ??= ask(e.message).catch((e) => { declined = true; throw e; }).finally(() => { asking = null; }));
      continue;
    }
    throw new Fault(e.code ?? 'http_' + r.status, e.message ?? (text.slice(0, 200) || r.statusText), e.metadata, r.status);
  }
}

// get returns the document at a path.
export async function get(path, options) {
  return parse(await (await send('GET', path, options)).text());
}

export async function getText(path, options) {
  return (await send('GET', path, options)).text();
}

// segment is a part of a key as a part of a path.
export function segment(s) {
  if (s === '' || s === '-' || s === '.' || s === '..' || s[0] === '~') s = '~' + s;
  return encodeURIComponent(s);
}

export function unsegment(s) {
  s = decodeURIComponent(s);
  return s[0] === '~' ? s.slice(1) : s;
}

// actorPath is the path of an actor, with a slash at the end.
export const actorPath = (a) => ['actors', segment(a.type), ...a.key.map(segment), '-', ''].join('/');

// call runs a method of an actor that is there. It creates none unless create is set.
export async function call(a, name, input, { create, headers, ...options } = {}) {
  const text = await (await send('POST', actorPath(a) + 'call/' + encodeURIComponent(name), {
    ...options, json: input ?? undefined, headers: create ? headers : { 'If-Match': '*', ...headers },
  })).text();
  return text ? parse(text) : undefined;
}

// events yields the server-sent events of a path for ever: it comes back after a lost connection, from where it was. A page that is
// hidden has no connection, because a browser has six to a node for all its pages. An event has event, id and data. Before each
// connection it yields {event: 'dashboard.open'}, after it 'dashboard.lost', which says whether the page was hidden. With anew it begins
// with the present each time.
export async function* events(path, { signal, method = 'GET', json, query, anew } = {}) {
  let last = '';
  for (let wait = 500; ; wait = Math.min(wait * 2, 10_000)) {
    await seen(signal);
    if (signal.aborted) return;
    const hidden = new AbortController();
    const look = () => { if (document.hidden) hidden.abort(); };
    document.addEventListener('visibilitychange', look);
    let why;
    try {
      const headers = { Accept: 'text/event-stream' };
      if (last && !anew) headers['Last-Event-ID'] = last;
      const r = await send(method, path + (query ? '?' + query : ''), { signal: AbortSignal.any([signal, hidden.signal]), json, headers });
      if (r.status === 204) return;
      yield { event: 'dashboard.open' };
      wait = 500;
      for await (const e of parseEvents(r.body)) {
        if (e.id !== undefined) last = e.id;
        if (e.event === 'cairn.bye') { why = parse(e.data); break; }
        if (e.event === 'cairn.end') return;
        if (e.event || e.data) yield e;
      }
    } catch (e) {
      if (signal.aborted) return;
      if (e instanceof Fault && e.status >= 400 && e.status < 500 && e.status !== 429) throw e;
      why = e;
    } finally {
      document.removeEventListener('visibilitychange', look);
    }
    if (why?.code === 'destroyed') throw new Fault(why.code, why.message);
    yield { event: 'dashboard.lost', hidden: hidden.signal.aborted };
    if (!hidden.signal.aborted) await pause(wait, signal);
  }
}

// seen resolves once the page can be seen, or the signal is aborted.
export const seen = (signal) => new Promise((resolve) => {
  const look = () => {
    if (document.hidden && !signal.aborted) return;
    document.removeEventListener('visibilitychange', look);
    signal.removeEventListener('abort', look);
    resolve();
  };
  document.addEventListener('visibilitychange', look);
  signal.addEventListener('abort', look);
  look();
});

// pause resolves after some milliseconds, or at once if the signal is aborted. It leaves nothing at the signal: a page pauses all day.
export const pause = (ms, signal) => new Promise((resolve) => {
  const end = () => {
    clearTimeout(timer);
    signal?.removeEventListener('abort', end);
    resolve();
  };
  const timer = setTimeout(end, ms);
  signal?.addEventListener('abort', end);
});

// parseEvents reads a stream of server-sent events.
export async function* parseEvents(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = []; // the line that has not ended
  let held = '';
  let e = {};
  let data = [];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      // A line may come in many pieces, of which each is looked at once. A return at the end may be half of an end of line.
      const text = held + value;
      held = text.endsWith('\r') ? '\r' : '';
      const pieces = text.slice(0, text.length - held.length).split(/\r\n|\n|\r/);
      for (let i = 0; i < pieces.length; i++) {
        rest.push(pieces[i]);
        if (i === pieces.length - 1) break;
        const line = rest.join('');
        rest = [];
        if (line === '') {
          if (data.length) e.data = data.join('\n');
          yield e;
          e = {};
          data = [];
          continue;
        }
        const colon = line.indexOf(':');
        if (colon === 0) continue;
        const field = colon < 0 ? line : line.slice(0, colon);
        const text = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
        if (field === 'data') data.push(text);
        else e[field] = text;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
