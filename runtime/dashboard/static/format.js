// Numbers, times and addresses as people read them.

import { segment, unsegment } from './api.js';
import { isRaw } from './json.js';

const grouped = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });

// plain is a number to calculate with: of a raw one, the nearest.
export const plain = (n) => isRaw(n) ? Number(n.rawJSON) : n;

// number shows an integer with all its digits.
export const number = (n) => n === undefined || n === null || Number.isNaN(n) ? '–' : grouped.format(isRaw(n) ? n.rawJSON : n);

// amount shows a number with three digits or so.
export function amount(n) {
  n = plain(n);
  if (n === undefined || n === null || Number.isNaN(n)) return '–';
  const abs = Math.abs(n);
  for (const [unit, size] of [['G', 1e9], ['M', 1e6], ['k', 1e4]]) if (abs >= size) return digits(n / (unit === 'k' ? 1e3 : size)) + unit;
  return abs >= 1000 ? grouped.format(n) : digits(n);
}

function digits(n) {
  const abs = Math.abs(n);
  return n === 0 ? '0' : n.toFixed(abs >= 100 || Number.isInteger(n) ? 0 : abs >= 10 ? 1 : 2);
}

export function bytes(n) {
  n = plain(n);
  if (n === undefined || n === null || Number.isNaN(n)) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  for (; Math.abs(n) >= 1024 && i < units.length - 1; i++) n /= 1024;
  return (i === 0 ? String(Math.round(n)) : digits(n)) + ' ' + units[i];
}

// seconds shows a duration that is given in seconds.
export function seconds(s) {
  s = plain(s);
  if (s === undefined || s === null || Number.isNaN(s)) return '–';
  const abs = Math.abs(s);
  if (abs === 0) return '0';
  if (abs < 1e-3) return digits(s * 1e6) + ' µs';
  if (abs < 1) return digits(s * 1e3) + ' ms';
  if (abs < 60) return digits(s) + ' s';
  return span(s * 1000);
}

// span shows a duration that is given in milliseconds, in up to two units.
export function span(ms) {
  const abs = Math.abs(ms);
  if (abs < 60_000) return seconds(ms / 1000);
  const sizes = [['d', 86_400_000], ['h', 3_600_000], ['min', 60_000], ['s', 1000]];
  const i = sizes.findIndex(([, size]) => abs >= size);
  const n = Math.floor(abs / sizes[i][1]);
  const m = i + 1 < sizes.length ? Math.round((abs - n * sizes[i][1]) / sizes[i + 1][1]) : 0;
  return `${ms < 0 ? '−' : ''}${n} ${sizes[i][0]}` + (m ? ` ${m} ${sizes[i + 1][0]}` : '');
}

const two = (n) => String(n).padStart(2, '0');

const real = (t) => t && !String(t).startsWith('0001-');

// clock shows a time of today as hours, minutes and seconds, others with their date.
export function clock(t) {
  if (!real(t)) return '–';
  const d = new Date(t);
  const time = `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
  return d.toDateString() === new Date().toDateString() ? time : `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${time}`;
}

// ago shows how long ago a time was, or in how long it will be.
export function ago(t) {
  if (!real(t)) return '–';
  const ms = Date.now() - new Date(t).getTime();
  if (Math.abs(ms) < 1500) return 'now';
  const abs = Math.abs(ms);
  const unit = abs >= 2 * 86_400_000 ? 86_400_000 : abs >= 2 * 3_600_000 ? 3_600_000 : abs >= 600_000 ? 60_000 : 1000; // more would be noise
  const text = span(Math.round(abs / unit) * unit);
  return ms > 0 ? text + ' ago' : 'in ' + text;
}

// between is the time between two times, in milliseconds with a fraction: dates alone lose microseconds.
export const between = (from, to) => micros(to) - micros(from);

// micros is a time in milliseconds with a fraction.
export function micros(t) {
  const fraction = /\.(\d+)/.exec(t);
  const whole = new Date(fraction ? t.replace(fraction[0], '') : t).getTime();
  return whole + (fraction ? Number('0.' + fraction[1]) * 1000 : 0);
}

// latest is the beginning of a list of what came in, the newest first: n of it, and no more than so many characters.
export function latest(list, n, room = 4_000_000) {
  let i = 0;
  while (i < list.length && i < n && (room > 0 || i === 0)) room -= list[i++].size ?? 0;
  return list.slice(0, i);
}

// keyOf is the key of an actor, without its type.
export const keyOf = (a) => (a.key ?? []).map(readable).join('/');

// address is TYPE/KEY, as the command cairn takes it.
export const address = (a) => [a.type, ...(a.key ?? [])].map(readable).join('/');

const readable = (s) => /^[\p{L}\p{M}\p{N}\p{So}_.:@ +,=-]+$/u.test(s) && s === s.trim() && s !== '-' && s !== '.' && s !== '..' ? s : segment(s);

export function parseAddress(text) {
  const parts = text.trim().replace(/^\//, '').split('/');
  if (!parts[0]) throw new Error('An address is TYPE/KEY, such as cell/acme.');
  return { type: unsegment(parts[0]), key: parts.slice(1).map(unsegment) };
}

// link is the fragment of an actor's page.
export const link = (a, tab = '') => '#/actor/' + [a.type, ...(a.key ?? [])].map(segment).join('/') + '/-/' + tab;
