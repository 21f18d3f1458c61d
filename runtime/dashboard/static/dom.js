// Making nodes. Text becomes text nodes and nothing here parses markup, so a stored value can never be more than text.

const svgSpace = 'http://www.w3.org/2000/svg';
const svgTags = new Set(['svg', 'g', 'path', 'line', 'rect', 'circle', 'text', 'title', 'polyline', 'polygon', 'defs', 'clipPath']);

// h makes an element: h('div.card', {title: 'x'}, 'text', child, [more]). The properties may be left out. Those that
// begin with "on" are handlers; key tells siblings apart when they are patched; keep is a key whose subtree patch leaves
// alone, for editors.
export function h(spec, ...rest) {
  const [tag, ...classes] = spec.split('.');
  const first = rest[0];
  const props = first && typeof first === 'object' && !(first instanceof Node) && !Array.isArray(first) ? rest.shift() : {};
  const el = svgTags.has(tag) && tag !== 'title' || props.svg ? document.createElementNS(svgSpace, tag) : document.createElement(tag);
  if (classes.length) el.setAttribute('class', classes.join(' '));
  append(el, rest);
  for (const name in props) set(el, name, props[name]);
  return el;
}

function append(el, children) {
  for (const c of children) {
    if (c === null || c === undefined || c === false || c === true) continue;
    if (Array.isArray(c)) append(el, c);
    else el.appendChild(c instanceof Node ? c : document.createTextNode(c.rawJSON ?? String(c)));
  }
}

function set(el, name, value) {
  if (name === 'key' || name === 'keep') { el[name] = value; return; }
  if (value === null || value === undefined || value === false || name === 'svg') return;
  if (name.startsWith('on')) {
    el[name] = value;
    (el.handlers ??= {})[name] = value;
  } else if (name === 'class') {
    for (const c of String(value).split(' ')) if (c) el.classList.add(c);
  } else if (name === 'style') {
    for (const p in value) el.style.setProperty(p, value[p]);
  } else if (name === 'value') {
    el.value = value;
  } else if (name === 'href' && !/^(#|\.\.?\/|blob:)/.test(value)) {
    throw new Error('a link must stay on this node');
  } else {
    el.setAttribute(name, value === true ? '' : String(value));
  }
}

// patch makes the children of parent like those given, and keeps the nodes that are alike: with their focus, scroll
// position and what was typed into them.
export function patch(parent, ...children) {
  const next = document.createDocumentFragment();
  append(next, children);
  patchChildren(parent, [...next.childNodes]);
}

const keyOf = (n) => n.keep ?? n.key;

function patchChildren(parent, next) {
  const keyed = new Map();
  for (const n of parent.childNodes) if (keyOf(n) !== undefined) keyed.set(keyOf(n), n);
  let cursor = parent.firstChild;
  for (const n of next) {
    const key = keyOf(n);
    while (cursor && key === undefined && keyOf(cursor) === undefined && !alike(cursor, n)) {
      const gone = cursor;
      cursor = cursor.nextSibling;
      gone.remove();
    }
    const old = key !== undefined ? keyed.get(key) : cursor && keyOf(cursor) === undefined ? cursor : null;
    if (!old || !alike(old, n)) { parent.insertBefore(n, cursor); continue; }
    if (old === cursor) cursor = cursor.nextSibling;
    else parent.insertBefore(old, cursor);
    if (n.keep === undefined) update(old, n);
  }
  while (cursor) {
    const gone = cursor;
    cursor = cursor.nextSibling;
    gone.remove();
  }
}

const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

function update(old, n) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== n.data) old.data = n.data;
    return;
  }
  for (const a of [...old.attributes]) {
    if (!n.hasAttribute(a.name) && a.name !== 'open' && a.name !== 'style') old.removeAttribute(a.name);
  }
  for (const a of n.attributes) {
    if (a.name !== 'style' && a.name !== 'open' && old.getAttribute(a.name) !== a.value) old.setAttribute(a.name, a.value);
  }
  if (old.style && old.style.cssText !== n.style.cssText) old.style.cssText = n.style.cssText;
  for (const name in old.handlers) old[name] = null;
  for (const name in n.handlers) old[name] = n.handlers[name];
  old.handlers = n.handlers;
  patchChildren(old, [...n.childNodes]);
}
