// Small charts, drawn as SVG.

import { h } from './dom.js';

// spark draws lines over the same time. A series is {points: [[time, value]], class}; NaN leaves a gap. format is for the
// labels. A line marks the time at. point is called with the part of the width at which the pointer is, and null when it leaves.
export function spark(series, { format, from, to, at, point, height = 44 }) {
  const all = series.flatMap((s) => s.points.map((p) => p[1])).filter((v) => Number.isFinite(v));
  const top = Math.max(...all, 0) * 1.1 || 1;
  const x = (t) => (t - from) / (to - from) * 100;
  const y = (v) => height - 1 - v / top * (height - 3);
  const line = (points) => {
    let d = '';
    let pen = false;
    for (const [t, v] of points) {
      if (!Number.isFinite(v) || t < from) { pen = false; continue; }
      d += `${pen ? 'L' : 'M'}${x(t).toFixed(2)} ${y(v).toFixed(2)}`;
      pen = true;
    }
    return d;
  };
  const area = (points) => {
    const p = points.filter(([t, v]) => t >= from && Number.isFinite(v));
    return p.length > 1 ? `M${x(p[0][0]).toFixed(2)} ${height}` + p.map(([t, v]) => `L${x(t).toFixed(2)} ${y(v).toFixed(2)}`).join('') + `L${x(p[p.length - 1][0]).toFixed(2)} ${height}Z` : '';
  };
  return h('svg.spark', { viewBox: `0 0 100 ${height}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': 'highest ' + format(top / 1.1), onpointermove: point && ((e) => { const r = e.currentTarget.getBoundingClientRect(); point((e.clientX - r.left) / r.width); }), onpointerleave: point && (() => point(null)) },
    series.map((s, i) => [
      i === 0 ? h('path.area', { d: area(s.points) }) : null,
      h('path.line', { d: line(s.points), class: s.class ?? '', 'vector-effect': 'non-scaling-stroke' })]),
    Number.isFinite(at) ? h('path.cursor', { d: `M${x(at).toFixed(2)} 0V${height}`, 'vector-effect': 'non-scaling-stroke' }) : null);
}
