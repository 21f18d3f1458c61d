// JSON with exact numbers. A number that JavaScript would change, such as 9007199254740993 or 7.0, becomes a raw number,
// which stringify writes as it was.

const raw = JSON.rawJSON ?? ((text) => Number(text));

export const isRaw = (v) => Boolean(JSON.isRawJSON?.(v));

export function parse(text) {
  return JSON.parse(text, (_, v, context) =>
    typeof v === 'number' && context?.source !== undefined && String(v) !== context.source ? raw(context.source) : v);
}

export const stringify = (v, indent) => JSON.stringify(v, null, indent);

// mark tells the text of a value from that of others.
export function mark(text) {
  let hash = 0;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return `${text.length} ${hash}`;
}

// short is v in one line of up to n characters.
export function short(v, n = 120) {
  const text = v === undefined ? '' : stringify(v);
  return text.length > n ? text.slice(0, n - 1) + '…' : text;
}
