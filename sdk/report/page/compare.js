// ---- two documents side by side: two machines, or two versions of a program

// Pairs of corresponding kernels: first those with the same name and operation, then those with the same operation and
// kind in order, then those with the same name and kind. Each kernel is in one pair.
function match(a, b) {
  const pairs = [], left = new Set(a.kernels), right = new Set(b.kernels);
  const round = key => {
    const waiting = new Map();
    for (const k of b.kernels) if (right.has(k)) { const id = key(k); if (id !== null) { if (!waiting.has(id)) waiting.set(id, []); waiting.get(id).push(k); } }
    for (const list of waiting.values()) list.reverse();
    for (const k of a.kernels) if (left.has(k)) { const id = key(k), other = id === null ? null : waiting.get(id)?.pop(); if (other) { pairs.push([k, other]); left.delete(k); right.delete(other); } }
  };
  round(k => k.op_name ? k.name + '\n' + k.op_name + '\n' + k.category : null);
  round(k => k.op_name ? k.op_name + '\n' + k.category : null);
  round(k => k.name + '\n' + k.category);
  for (const k of left) pairs.push([k, null]);
  for (const k of right) pairs.push([null, k]);
  return pairs.map(([p, q], at) => ({ at, a: p, b: q, name: (p || q).name + (p && q && p.name !== q.name ? ' / ' + q.name : ''), ta: p ? p.total : 0, tb: q ? q.total : 0, text: [p?.text, q?.text].join('\n') }));
}

const compare = (() => {
  if (documents.length < 2) return null;
  let left = 0, right = 1, pairs = [];
  const A = () => documents[left], B = () => documents[right];
  const pick = (label, get, set) => { const s = el('select', { 'aria-label': label }, documents.map((d, i) => el('option', { value: i }, d.title))); s.value = get(); s.onchange = () => { set(Number(s.value)); update(); }; return s; };
  const pickA = pick('first', () => left, v => { left = v; }), pickB = pick('second', () => right, v => { right = v; });
  const swap = el('button', { title: 'the other way round', onclick: () => { [left, right] = [right, left]; pickA.value = left; pickB.value = right; update(); } }, '⇄');
  const words = el('input', { type: 'search', placeholder: 'find kernels', 'aria-label': 'find matched kernels', oninput: () => table.update() });
  const totals = el('table', { 'aria-label': 'totals side by side' }), verdict = el('p', { style: 'margin: 0 0 10px' });
  const ratio = (p, q) => !(p > 0) || !(q > 0) ? '' : q === p ? 'same' : q > p ? `${digits(q / p)}× more` : `${digits(p / q)}× less`;
  const word = (p, q) => el('span', { class: q > p * 1.0005 ? 'up' : q < p * 0.9995 ? 'down' : 'soft' }, ratio(p, q));

  function fillTotals() {
    const rate = d => d.totals.seconds > 0 ? d.totals.flops / d.totals.seconds : 0, band = d => d.totals.seconds > 0 ? d.totals.hbm_bytes / d.totals.seconds : 0;
    const rows = [['time of a run', d => d.totals.seconds, v => timeText(v), true], ['kernels', d => d.kernels.length, countText], ['executions of kernels', d => d.kernels.reduce((n, k) => n + k.executions, 0), countText],
      ['most time waits for', d => d.bounds[0], ([u, s], d) => s > 0 ? `${UNIT_NAMES[u]}, ${percent(s, d.boundSum)}` : ''], ['arithmetic', d => d.totals.flops, flopText], ['rate', rate, (v, d) => `${rateText(v)}, ${percent(v, d.machine.matrix_flops_per_second)} of peak`],
      ['HBM traffic', d => d.totals.hbm_bytes, v => bytesText(Math.round(v)), true], ['bandwidth reached', band, (v, d) => `${bandText(v)}, ${percent(v, d.machine.hbm_bytes_per_second)} of peak`], ['HBM at its fullest', d => d.hbm.peak, (v, d) => `${bytesText(v)}, ${percent(v, d.hbm.capacity)} of the limit`, true], ['padding in HBM', d => d.waste, (v, d) => `${bytesText(v)}, ${percent(v, d.padded)}`, true]];
    totals.replaceChildren(el('thead', {}, el('tr', {}, el('th', { class: 'left' }), documents.map((d, i) => el('th', { class: i === left || i === right ? '' : 'faint', scope: 'col' }, d.title)), el('th', {}, 'second against first'))),
      el('tbody', {}, rows.map(([name, of, text, judged]) => { const p = of(A()), q = of(B()); return el('tr', {}, el('td', { class: 'left soft' }, name), documents.map(d => el('td', {}, text(of(d), d))), el('td', {}, typeof p !== 'number' ? '' : judged ? word(p, q) : el('span', { class: 'soft' }, ratio(p, q)))); })));
    const p = A().totals.seconds, q = B().totals.seconds, both = pairs.filter(r => r.a && r.b).length;
    verdict.replaceChildren(el('b', {}, B().title), p > 0 && q > 0 ? (Math.abs(q / p - 1) < 0.0005 ? ' takes as long as ' : q < p ? ` is ${digits(p / q)}× as fast as ` : ` takes ${digits(q / p)}× as long as `) : ' beside ', el('b', {}, A().title), `: ${timeText(q)} for ${timeText(p)}. ${countText(both)} kernels are in both, ${countText(pairs.filter(r => !r.b).length)} only in the first, ${countText(pairs.filter(r => !r.a).length)} only in the second.`);
  }

  // Both runs with one time scale.
  const ROW = 26, b = board(2 * (ROW + 22) + 22, 'both runs on one scale of time', { keys: false });
  b.draw = (g, w) => {
    const end = Math.max(A().end, B().end) || 1e-9, perPx = end / w;
    const unit = step(end, Math.max(2, w / 120)), y = 2 * (ROW + 22) + 8;
    for (let t = 0; t <= end; t += unit) { g.fillStyle = color('line'); g.fillRect(Math.round(t / perPx), 18, 1, y - 24); g.fillStyle = color('soft'); if (t / perPx < w - 50) g.fillText(timeText(t), t / perPx + 2, y); }
    [A(), B()].forEach((d, i) => {
      const top = i * (ROW + 22);
      g.fillStyle = color('soft'); g.fillText(fit(g, `${d.title}: ${timeText(d.totals.seconds)}`, w - 10), 0, top + 9);
      g.globalAlpha = 0.7; g.fillStyle = color('band'); g.fillRect(0, top + 18, w, ROW); g.globalAlpha = 1;
      drawMixture(g, mixture(d, 0, end, Math.ceil(w)), 0, top + 18, ROW);
    });
  };
  const hit = e => { const i = e.offsetY < ROW + 20 ? 0 : 1, d = i ? B() : A(), end = Math.max(A().end, B().end) || 1e-9, found = kernelAt(d, e.offsetX / b.width * end, end / b.width * 1.5); return found && { d, kernel: found.kernel, doc: i ? right : left }; };
  b.canvas.onpointermove = e => { const v = hit(e); if (v) showTip(e.clientX, e.clientY, kernelTip(v.kernel, v.d)); else hideTip(); };
  b.canvas.onpointerleave = hideTip;
  b.canvas.onclick = e => { const v = hit(e); if (v) { selectKernel(v.kernel.at, v.doc); timeline.keepInSight(v.kernel.at); } };

  const rows = () => { const text = words.value.trim().toLowerCase().split(/\s+/).filter(Boolean); return pairs.filter(r => text.every(t => r.text.includes(t))); };
  const columns = () => {
    const most = Math.max(1e-30, ...pairs.slice(0, 100000).map(r => Math.abs(r.tb - r.ta)));
    return [{ name: 'change', of: r => Math.abs(r.tb - r.ta), show: r => el('span', { class: r.tb > r.ta ? 'up' : r.tb < r.ta ? 'down' : 'soft' }, (r.tb > r.ta ? '+' : r.tb < r.ta ? '−' : '') + timeText(Math.abs(r.tb - r.ta))), share: r => Math.abs(r.tb - r.ta) / most, tint: r => r.tb > r.ta ? 'var(--bad)' : 'var(--good)', title: 'second less first, all executions' },
      { name: 'ratio', of: r => r.a && r.b && r.ta > 0 ? r.tb / r.ta : r.b ? Infinity : 0, show: r => r.a && r.b ? (r.ta > 0 ? digits(r.tb / r.ta) + '×' : '') : '' }, { name: 'first', of: r => r.ta, show: r => r.a ? timeText(r.ta) : '–' }, { name: 'second', of: r => r.tb, show: r => r.b ? timeText(r.tb) : '–' },
      { name: 'kernel', of: r => r.name, show: r => [el('i', { class: 'dot', style: `background: var(--${(r.a || r.b).color})` }), r.name, r.a && r.b ? '' : el('span', { class: 'tag', style: 'margin-left: 6px' }, r.a ? 'only in the first' : 'only in the second')], left: true },
      { name: 'kind', of: r => (r.a || r.b).category, left: true }, { name: 'waits for', of: r => (r.a?.bound || '') + (r.b?.bound || ''), show: r => [r.a && UNIT_NAMES[r.a.bound], r.b && UNIT_NAMES[r.b.bound]].filter((u, i, all) => u && all.indexOf(u) === i).join(' → '), left: true },
      { name: 'source', of: r => sourceOf(r.a || r.b), show: r => origin(r.a || r.b), left: true }, { name: 'operation', of: r => (r.a || r.b).op_name, left: true, cls: 'cut', full: r => (r.a || r.b).op_name }];
  };
  const table = grid({ label: 'matched kernels', columns, rows, most: 20, empty: 'no kernel matches', choose: r => { const second = state.doc === right && r.b || !r.a; selectKernel((second ? r.b : r.a).at, second ? right : left); timeline.keepInSight(state.kernel); } });
  function update() { pairs = match(A(), B()); fillTotals(); table.update(); b.redraw(); }
  const card = el('section', { class: 'card', id: 'compare' }, el('div', { class: 'head' }, el('h2', {}, 'Compare'), pickA, swap, pickB, el('span', { class: 'grow' }), el('div', { class: 'controls' }, words)),
    el('div', { class: 'inner' }, verdict, b.canvas), el('div', { class: 'scroll' }, totals), el('div', { style: 'height: 10px' }), table.box);
  return { card, update, pairs: () => pairs, redraw: b.redraw };
})();
