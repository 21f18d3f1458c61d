// Reading /metrics: the text format of Prometheus.

import { getText } from './api.js';

// parse reads samples into a map from names to lists of {labels, value}.
export function parseMetrics(text) {
  const all = new Map();
  for (const line of text.split('\n')) {
    if (!line || line[0] === '#') continue;
    const m = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line);
    if (!m) continue;
    const labels = {};
    for (const [, name, value] of (m[2] ?? '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) labels[name] = value.replace(/\\(.)/g, (_, c) => c === 'n' ? '\n' : c);
    const value = m[3] === '+Inf' ? Infinity : m[3] === '-Inf' ? -Infinity : Number(m[3]);
    if (!all.has(m[1])) all.set(m[1], []);
    all.get(m[1]).push({ labels, value });
  }
  return all;
}

const matches = (s, where) => Object.entries(where).every(([k, v]) => s.labels[k] === v);

// A Scrape is what /metrics said at one time.
export class Scrape {
  constructor(text) {
    this.at = Date.now();
    this.all = parseMetrics(text);
    this.values = new Map(); // what was calculated of it
  }

  has(name) { return this.all.has(name) || this.all.has(name + '_bucket'); }

  sum(name, where = {}) {
    let sum = 0;
    for (const s of this.all.get(name) ?? []) if (matches(s, where)) sum += s.value;
    return sum;
  }

  max(name) { return Math.max(0, ...(this.all.get(name) ?? []).map((s) => s.value)); }

  // by adds up the samples of a metric by one label.
  by(name, label) {
    const out = new Map();
    for (const s of this.all.get(name) ?? []) out.set(s.labels[label], (out.get(s.labels[label]) ?? 0) + s.value);
    return out;
  }

  // buckets adds up the buckets of a histogram: [[bound, count]].
  buckets(name, where = {}) {
    const out = new Map();
    for (const s of this.all.get(name + '_bucket') ?? []) {
      if (!matches(s, where)) continue;
      const le = s.labels.le === '+Inf' ? Infinity : Number(s.labels.le);
      out.set(le, (out.get(le) ?? 0) + s.value);
    }
    return [...out].sort((a, b) => a[0] - b[0]);
  }
}

// rate is by how much a counter grew in a second.
export function rate(a, b, name, where) {
  const grown = b.sum(name, where) - a.sum(name, where);
  return grown < 0 || b.at <= a.at ? 0 : grown * 1000 / (b.at - a.at);
}

// quantile estimates a quantile of what a histogram counted between two scrapes, or NaN if that is nothing.
export function quantile(a, b, name, q, where) {
  const before = new Map(a ? a.buckets(name, where) : []);
  const now = b.buckets(name, where).map(([le, n]) => [le, n - (before.get(le) ?? 0)]);
  const total = now.length ? now[now.length - 1][1] : 0;
  if (total <= 0) return NaN;
  let low = 0;
  let below = 0;
  for (const [le, n] of now) {
    if (n >= q * total) {
      if (le === Infinity) return low;
      return low + (le - low) * (n - below > 0 ? (q * total - below) / (n - below) : 1);
    }
    low = le;
    below = n;
  }
  return low;
}

export const scrape = async (signal) => new Scrape(await getText('metrics', { signal }));
