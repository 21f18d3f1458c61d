// Reading stored values: JSON, CBOR (RFC 8949), and the runtime's own records, which are a version and CBOR.

import { parse } from './json.js';

const text = new TextDecoder('utf-8', { fatal: true });
const most = 64; // levels

// unbase64 reads bytes as the API has them.
export const unbase64 = (s) => Uint8Array.from(atob(s ?? ''), (c) => c.charCodeAt(0));

// exact is an integer as JSON has it.
const exact = (n) => n <= Number.MAX_SAFE_INTEGER && n >= Number.MIN_SAFE_INTEGER ? Number(n) : parse(String(n));

// shownBytes shows bytes as text if they are text.
function shownBytes(b) {
  try {
    const s = text.decode(b);
    if (!/[\p{Cc}]/u.test(s)) return s;
  } catch { /* not text */ }
  return { $hex: [...b].map((x) => x.toString(16).padStart(2, '0')).join('') };
}

// decode returns the value of bytes that are one item of CBOR. It throws if they are anything else.
export function decode(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const bad = () => new Error('not CBOR');
  const take = (n) => {
    if (at + n > bytes.length) throw bad();
    const b = bytes.subarray(at, at + n);
    at += n;
    return b;
  };
  const argument = (low) => {
    if (low < 24) return BigInt(low);
    if (low > 27) throw bad();
    return take(1 << (low - 24)).reduce((n, b) => n << 8n | BigInt(b), 0n);
  };
  const half = (n) => {
    const e = n >> 10 & 31;
    const m = n & 1023;
    const v = e === 0 ? m * 2 ** -24 : e === 31 ? (m ? NaN : Infinity) : (1 + m / 1024) * 2 ** (e - 15);
    return n & 0x8000 ? -v : v;
  };
  const item = (depth) => {
    if (depth > most) throw bad();
    const head = take(1)[0];
    const major = head >> 5;
    const low = head & 31;
    if (major === 7) {
      switch (low) {
        case 20: return false;
        case 21: return true;
        case 22: case 23: return null;
        case 25: take(2); return half(view.getUint16(at - 2));
        case 26: take(4); return view.getFloat32(at - 4);
        case 27: take(8); return view.getFloat64(at - 8);
      }
      throw bad();
    }
    const n = argument(low);
    switch (major) {
      case 0: return exact(n);
      case 1: return exact(-1n - n);
      case 2: return shownBytes(take(Number(n)));
      case 3: return text.decode(take(Number(n)));
      case 4: {
        if (n > bytes.length) throw bad();
        return Array.from({ length: Number(n) }, () => item(depth + 1));
      }
      case 5: {
        if (n > bytes.length) throw bad();
        const out = Object.create(null);
        for (let i = 0; i < n; i++) {
          const k = item(depth + 1);
          out[typeof k === 'string' ? k : JSON.stringify(k)] = item(depth + 1);
        }
        return out;
      }
    }
    return item(depth + 1); // of a tag, what it is about
  };
  const v = item(0);
  if (at !== bytes.length) throw bad();
  return v;
}

// stored returns the value under a key of a kind in readable form, or undefined if it is neither JSON nor CBOR.
export function stored(kind, bytes) {
  if (!bytes.length) return undefined;
  if (bytes.every((b) => b >= 32 && b < 127)) { // a record begins with a small number
    const plain = text.decode(bytes);
    try { return parse(plain); } catch { return plain; }
  }
  if (kind !== 4) {
    let n = 0;
    while (n < bytes.length && bytes[n] & 0x80) n++;
    try { return decode(bytes.subarray(n + 1)); } catch { /* no record */ }
  }
  try { return parse(text.decode(bytes)); } catch { /* no JSON */ }
  try { return decode(bytes); } catch { return undefined; }
}
