// ---- the timeline: an overview, then lanes for loops, kernels and units, then the HBM in use; all share one time axis

const timeline = (() => {
  const LEFT = 92, OVER = 24, AXIS = 22, LOOP = 17, KERNEL = 28, UNIT = 19, GAP = 4, USE = 92;
  let from = 0, to = 1, drag = null, hover = null, scale = 'peak';
  const d = () => now();
  const lanes = () => UNITS.filter((u, i) => d().kernels.some(k => k.busy[i] > 0));
  const loopRows = () => Math.min(4, d().loopDepth);
  // Top of each part, from above.
  const tops = () => {
    const y = { over: 0, axis: OVER + 4 };
    y.loops = y.axis + AXIS; y.kernels = y.loops + loopRows() * LOOP + (loopRows() ? GAP : 0);
    y.units = y.kernels + KERNEL + GAP; y.use = y.units + lanes().length * UNIT + 12; y.end = y.use + USE + 6;
    return y;
  };
  const b = board(() => tops().end, 'timeline of the run by unit', { keys: true, grab: true });
  const x = t => LEFT + (t - from) / (to - from) * (b.width - LEFT);
  const timeOf = px => from + (px - LEFT) / (b.width - LEFT) * (to - from);
  const whole = () => { from = 0; to = d().end || 1e-9; };
  const least = () => Math.max((d().end || 1e-9) * 1e-9, 2e-10);
  function show(f, t) {
    const end = d().end || 1e-9;
    let span = Math.min(Math.max(t - f, least()), end);
    if (span === end) f = 0;
    f = Math.max(-0.01 * span, Math.min(f, end + 0.01 * span - span));
    from = f; to = f + span; b.redraw();
  }
  const zoom = (factor, at = (from + to) / 2) => show(at - (at - from) * factor, at - (at - from) * factor + (to - from) * factor);

  b.draw = (g, w) => {
    const y = tops(), us = lanes();
    const { kernels: ky } = y;
    drawOverview(g, w, y);
    // Axis, with lines down through the lanes.
    const unit = step(to - from, Math.max(2, (w - LEFT) / 110));
    g.fillStyle = color('soft');
    for (let t = Math.ceil(Math.max(from, 0) / unit) * unit; t <= to; t += unit) {
      const px = Math.round(x(t));
      g.fillStyle = color('line'); g.fillRect(px, y.axis + 4, 1, y.end - y.axis - 8);
      g.fillStyle = color('soft'); g.textAlign = 'left';
      if (px < w - 44) g.fillText(axisTime(t, unit), px + 4, y.axis + AXIS / 2 - 1);
    }
    // Names of the lanes.
    g.fillStyle = color('soft');
    g.fillText('whole run', 8, OVER / 2);
    for (let i = 0; i < loopRows(); ++i) g.fillText(i ? '' : 'loops', 8, y.loops + LOOP / 2);
    g.fillStyle = color('ink'); g.fillText('kernels', 8, ky + KERNEL / 2);
    us.forEach((u, i) => { g.fillStyle = color('soft'); g.fillText(UNIT_NAMES[u], 8, y.units + i * UNIT + UNIT / 2); });
    us.forEach((u, i) => { g.fillStyle = color('band'); g.fillRect(LEFT, y.units + i * UNIT + 1, w - LEFT, UNIT - 3); });
    g.save(); g.beginPath(); g.rect(LEFT, 0, w - LEFT, y.end); g.clip();
    const columns = drawLanes(g, w, y, us);
    drawUse(g, w, y, columns);
    g.restore();
    drawUseScale(g, w, y);
  };

  // Kernels wider than a pixel are drawn; the rest is summed up by columns of pixels.
  function drawLanes(g, w, y, us) {
    const n = Math.ceil(w - LEFT), perPx = (to - from) / n;
    const busy = us.map(() => new Float64Array(n)), use = new Float64Array(n).fill(-1);
    const unitAt = us.map(u => UNITS.indexOf(u)), inUse = d().hbm.in_use;
    const wide = [], shown = state.kernel, filter = tables.matches;
    const mixed = mixture(d(), from, to, n, (k, begin) => wide.push([k, begin]), (k, item, spread, drawn) => {
      const u = k ? inUse[k.at] || 0 : item.use, parts = (k || item).busy;
      spread((c, t) => { use[c] = Math.max(use[c], u); if (!drawn) for (let i = 0; i < us.length; ++i) busy[i][c] += t * parts[unitAt[i]]; });
    }, (item, begin) => {
      if (item.depth >= loopRows()) return;
      const a = Math.max(x(begin), LEFT - 2), e = Math.min(x(begin + item.seconds * item.tripCount), w + 2), top = y.loops + item.depth * LOOP;
      if (e - a < 1) return;
      g.fillStyle = color('band'); g.fillRect(a, top, e - a, LOOP - 2);
      g.strokeStyle = color('faint'); g.strokeRect(a + 0.5, top + 0.5, Math.max(0, e - a - 1), LOOP - 3);
      const text = fit(g, `${item.loop.name} × ${item.loop.known ? countText(item.tripCount) : 'unknown'}`, e - a - 8), textEnd = text ? a + 9 + g.measureText(text).width : 0;
      // The starts of iterations, if they are wide enough.
      if (item.seconds / perPx > 6) { g.fillStyle = color('faint'); for (let t = Math.max(1, Math.ceil((from - begin) / item.seconds)); t < item.tripCount && begin + t * item.seconds < to; ++t) { const px = Math.round(x(begin + t * item.seconds)); if (px > textEnd) g.fillRect(px, top + LOOP - 7, 1, 5); } }
      g.fillStyle = color('soft'); if (text) g.fillText(text, a + 5, top + LOOP / 2 - 1);
    });
    drawMixture(g, mixed, LEFT, y.kernels, KERNEL);
    us.forEach((u, i) => {
      g.fillStyle = color(u); g.globalAlpha = 0.9;
      for (let c = 0; c < n; ++c) if (busy[i][c] > 0) { const h = Math.max(1, (UNIT - 3) * Math.min(1, busy[i][c] / perPx)); g.fillRect(LEFT + c, y.units + i * UNIT + UNIT - 2 - h, 1, h); }
    });
    g.globalAlpha = 1;
    for (const [k, begin] of wide) {
      const a = x(begin), e = x(begin + k.seconds), gap = e - a > 4 ? 1 : 0, dim = filter && !filter(k);
      g.globalAlpha = dim ? 0.18 : 1;
      g.fillStyle = paint(k); g.fillRect(a, y.kernels, Math.max(1, e - a - gap), KERNEL);
      if (e - a > 34 && !dim) {
        g.fillStyle = '#fff';
        const l = Math.max(a, LEFT), text = fit(g, k.name, Math.min(e, w) - l - 10);
        if (text) g.fillText(text, l + 5, y.kernels + KERNEL / 2 + 1);
      }
      us.forEach((u, i) => { const share = k.busy[unitAt[i]]; if (share <= 0) return; g.fillStyle = color(u); g.fillRect(a, y.units + i * UNIT + 1, Math.max(0.6, (e - a - gap) * share), UNIT - 3); });
      g.globalAlpha = 1;
      if (k.at === shown || hover && hover.kernel === k) { g.strokeStyle = color('ink'); g.lineWidth = k.at === shown ? 2 : 1; g.strokeRect(a + 1, y.kernels + 1, Math.max(1, e - a - gap - 2), KERNEL - 2); g.lineWidth = 1; }
    }
    // A selected kernel that is too narrow to see gets a mark.
    if (shown >= 0) { const k = d().kernels[shown], px = x(firstStart(k) + k.seconds / 2); if (px > LEFT && px < w) { g.fillStyle = color('ink'); g.beginPath(); g.moveTo(px - 5, y.kernels - 5); g.lineTo(px + 5, y.kernels - 5); g.lineTo(px, y.kernels + 1); g.fill(); } }
    return use;
  }

  function top() { const { capacity, peak } = d().hbm, most = Math.max(peak, ...[d().hbm.in_use[d().fullest] || 0], 1); return scale === 'limit' && capacity > 0 ? Math.max(capacity, most) * 1.08 : capacity > 0 && most * 3 > capacity ? Math.max(most, capacity) * 1.08 : most * 1.15; }
  function drawUse(g, w, y, use) {
    const limit = top(), base = y.use + USE, { capacity } = d().hbm;
    g.fillStyle = color('use'); g.globalAlpha = 0.75;
    let held = 0;
    for (let c = 0; c < use.length; ++c) { if (use[c] >= 0) held = use[c]; else if (from + (c + 0.5) / use.length * (to - from) > d().end) held = 0; const h = held / limit * (USE - 4); if (held > 0) g.fillRect(LEFT + c, base - h, 1, h); }
    g.globalAlpha = 1;
    g.fillStyle = color('line'); g.fillRect(LEFT, base, w - LEFT, 1);
    if (capacity > 0 && capacity <= limit) {
      const ly = base - capacity / limit * (USE - 4);
      g.strokeStyle = color('bad'); g.setLineDash([5, 4]); g.beginPath(); g.moveTo(LEFT, ly + 0.5); g.lineTo(w, ly + 0.5); g.stroke(); g.setLineDash([]);
      g.fillStyle = color('bad'); g.textAlign = 'right'; g.fillText('limit ' + bytesText(capacity), w - 6, ly + 9); g.textAlign = 'left';
    } else if (capacity > 0) {
      g.fillStyle = color('soft'); g.textAlign = 'right'; g.fillText(`limit ${bytesText(capacity)}, ${times(capacity / Math.max(1, d().hbm.peak))} of the peak`, w - 6, y.use + 7); g.textAlign = 'left';
    }
  }
  function drawUseScale(g, w, y) {
    const limit = top();
    g.fillStyle = color('soft'); g.fillText('HBM in use', 8, y.use + 8);
    g.textAlign = 'right';
    g.fillText('0', LEFT - 6, y.use + USE - 4);
    const mark = Math.pow(2, Math.floor(Math.log2(limit * 0.8))); g.fillText(bytesText(Math.round(mark)), LEFT - 6, y.use + USE - mark / limit * (USE - 4));
    g.textAlign = 'left';
  }

  function drawOverview(g, w, y) {
    const end = d().end || 1e-9;
    drawMixture(g, mixture(d(), 0, end, Math.ceil(w - LEFT)), LEFT, 4, OVER - 8);
    const a = LEFT + Math.max(0, from) / end * (w - LEFT), e = LEFT + Math.min(to, end) / end * (w - LEFT);
    g.fillStyle = color('card'); g.globalAlpha = 0.66; g.fillRect(LEFT, 2, a - LEFT, OVER - 4); g.fillRect(e, 2, w - e, OVER - 4); g.globalAlpha = 1;
    g.strokeStyle = color('ink'); g.strokeRect(a + 0.5, 1.5, Math.max(3, e - a - 1), OVER - 3);
  }

  // The first start of a kernel; in a loop, that of the first iteration.
  const firstStart = k => k.start_seconds;
  const axisTime = (t, unit) => { if (t === 0) return '0'; const [size, name] = [[1, 's'], [1e-3, 'ms'], [1e-6, 'µs'], [1e-9, 'ns']].find(([s]) => to >= s) || [1e-12, 'ps']; return (t / size).toFixed(Math.max(0, Math.min(6, Math.ceil(-Math.log10(unit / size) - 1e-9)))) + ' ' + name; };

  function at(e) {
    const y = tops(), px = e.offsetX, py = e.offsetY;
    if (px < LEFT) return null;
    if (py < OVER) return { over: true };
    const t = timeOf(px), slack = (to - from) / (b.width - LEFT) * 1.5;
    if (py >= y.loops && py < y.loops + loopRows() * LOOP) {
      const row = Math.floor((py - y.loops) / LOOP); let found = null;
      walk(d().tree, 0, t, t, 0, { kernel: () => {}, loop: (item, begin, iteration) => { if (item.depth === row) found = { loop: item, begin, iteration: Math.min(item.tripCount - 1, Math.floor((t - begin) / (item.seconds || 1))) }; } });
      return found;
    }
    const found = kernelAt(d(), t, slack);
    return found && { ...found, use: py >= y.use, unit: py >= y.units && py < y.use - 8 ? lanes()[Math.floor((py - y.units) / UNIT)] : null };
  }
  function tip(e, v) {
    if (v.over) return hideTip();
    if (v.loop) return showTip(e.clientX, e.clientY, [el('b', {}, v.loop.loop.name), el('div', {}, v.loop.loop.known ? `${countText(v.loop.tripCount)} iterations of ${timeText(v.loop.seconds)}, ${timeText(v.loop.seconds * v.loop.tripCount)} in all` : `iterations decided at run time; one takes ${timeText(v.loop.seconds)}`), el('div', {}, `iteration ${countText(v.iteration + 1)}`)]);
    const lines = kernelTip(v.kernel);
    if (v.use) lines.push(el('div', {}, `${bytesText(d().hbm.in_use[v.kernel.at] || 0)} of HBM in use` + (d().hbm.capacity ? `, ${percent(d().hbm.in_use[v.kernel.at] || 0, d().hbm.capacity)} of the limit` : '')));
    if (v.unit) lines.push(el('div', {}, `${UNIT_NAMES[v.unit]} (${UNIT_WORDS[v.unit]}) is busy ${percent(v.kernel.busy[UNITS.indexOf(v.unit)])} of the kernel`));
    lines.push(el('div', {}, `at ${timeText(v.begin)}` + (v.iteration.length ? `, iteration ${v.iteration.map(n => n + 1).join(' · ')}` : '')));
    showTip(e.clientX, e.clientY, lines);
  }
  const c = b.canvas;
  c.onpointerdown = e => {
    if (e.button) return;
    c.setPointerCapture(e.pointerId);
    if (e.offsetY < OVER) { const end = d().end || 1e-9, t = (e.offsetX - LEFT) / (b.width - LEFT) * end; drag = { over: true, x: e.offsetX, moved: false, grab: t >= from && t <= to && to - from < end * 0.98 ? t - from : (to - from) / 2 }; if (to - from < end * 0.98) show(t - drag.grab, t - drag.grab + to - from); return; }
    drag = { x: e.offsetX, from, to, moved: false };
  };
  c.onpointermove = e => {
    if (drag?.over) { const t = (e.offsetX - LEFT) / (b.width - LEFT) * (d().end || 1e-9); show(t - drag.grab, t - drag.grab + to - from); return; }
    if (drag) { if (Math.abs(e.offsetX - drag.x) > 3) drag.moved = true; if (drag.moved) { const s = (drag.x - e.offsetX) / (b.width - LEFT) * (drag.to - drag.from); show(drag.from + s, drag.to + s); hideTip(); return; } }
    const v = at(e), before = hover?.kernel; hover = v && v.kernel ? v : null;
    if (before !== hover?.kernel) b.redraw();
    if (v) tip(e, v); else hideTip();
  };
  c.onpointerup = e => { const clicked = drag && !drag.moved && !drag.over; drag = null; if (clicked) { const v = at(e); if (v?.kernel) selectKernel(v.kernel.at); else if (v?.loop) show(v.begin, v.begin + v.loop.seconds * v.loop.tripCount); } };
  c.onpointercancel = () => { drag = null; };
  c.onpointerleave = () => { hover = null; hideTip(); b.redraw(); };
  c.ondblclick = e => { const v = at(e); if (v?.kernel) show(v.begin - v.kernel.seconds * 0.15, v.begin + v.kernel.seconds * 1.15); else { whole(); b.redraw(); } };
  // The wheel zooms with Ctrl, or if the timeline has the focus; otherwise it scrolls the page.
  c.addEventListener('wheel', e => {
    if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) { e.preventDefault(); const s = (e.deltaX || e.deltaY) / (b.width - LEFT) * (to - from); show(from + s, to + s); return; }
    if (!e.ctrlKey && !e.metaKey && document.activeElement !== c) return;
    e.preventDefault(); zoom(Math.exp(Math.max(-60, Math.min(60, e.deltaY)) / 200), timeOf(Math.max(LEFT, e.offsetX)));
  }, { passive: false });
  c.addEventListener('keydown', e => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const span = to - from, move = { ArrowLeft: () => neighbour(-1), ArrowRight: () => neighbour(1), '+': () => zoom(0.6), '=': () => zoom(0.6), w: () => zoom(0.6), '-': () => zoom(1 / 0.6), s: () => zoom(1 / 0.6), a: () => show(from - span / 5, to - span / 5), d: () => show(from + span / 5, to + span / 5), '0': () => { whole(); b.redraw(); }, Home: () => { whole(); b.redraw(); }, Enter: () => state.kernel >= 0 && reveal(state.kernel, 8) }[e.key];
    if (move) { e.preventDefault(); move(); }
  });
  // The next or previous kernel in order.
  function neighbour(by) {
    const count = d().kernels.length; if (!count) return;
    const at = state.kernel < 0 ? (by > 0 ? 0 : count - 1) : Math.max(0, Math.min(count - 1, state.kernel + by));
    selectKernel(at); keepInSight(at);
  }
  function keepInSight(at) { const k = d().kernels[at], s = firstStart(k); if (s < from || s + k.seconds > to) { const span = to - from; show(s + k.seconds / 2 - span / 2, s + k.seconds / 2 + span / 2); } }
  function reveal(at, around = 8) { const k = d().kernels[at], s = firstStart(k), span = Math.max(k.seconds * around, least()); show(s + k.seconds / 2 - span / 2, s + k.seconds / 2 + span / 2); }

  const legend = el('div', { class: 'legend' });
  function drawLegend() {
    const kinds = new Map();
    for (const k of d().kernels) { const key = state.color === 'bound' ? k.bound : k.category; kinds.set(key, (kinds.get(key) || 0) + k.total); }
    legend.replaceChildren(...[...kinds].sort((p, q) => q[1] - p[1]).slice(0, 9).map(([key, t]) => el('span', {}, el('i', { style: `background: var(--${state.color === 'bound' ? key : kindColor(key)})` }), `${state.color === 'bound' ? 'waits for ' + (UNIT_NAMES[key] || key) : key} ${percent(t, d().totals.seconds)}`)));
  }
  const by = el('button', { title: 'colour kernels by their kind or by the unit they wait for', onclick: () => { state.color = state.color === 'kind' ? 'bound' : 'kind'; mixVersion++; emit('theme'); } });
  const full = el('button', { title: 'scale the memory to its peak or to the limit', onclick: () => { scale = scale === 'peak' ? 'limit' : 'peak'; label(); b.redraw(); } });
  function label() { by.textContent = 'colour: ' + (state.color === 'kind' ? 'kind' : 'waits for'); full.textContent = 'HBM scale: ' + scale; full.hidden = !(d().hbm.capacity > 3 * d().hbm.peak); }
  const card = el('section', { class: 'card', id: 'timeline' },
    el('div', { class: 'head' }, el('h2', {}, 'Timeline'), legend, el('span', { class: 'grow' }), el('div', { class: 'controls' }, by, full,
      el('button', { onclick: () => zoom(0.5), 'aria-label': 'zoom in', title: 'zoom in (+)' }, '+'), el('button', { onclick: () => zoom(2), 'aria-label': 'zoom out', title: 'zoom out (-)' }, '−'), el('button', { onclick: () => { whole(); b.redraw(); }, title: 'the whole run (0)' }, 'whole run'))),
    el('div', { class: 'inner' }, b.canvas, el('p', { class: 'faint small', style: 'margin: 6px 0 0' }, 'Drag to move; Ctrl and wheel to zoom (the wheel alone once the timeline is clicked); double click a kernel to fill the view. How long a unit is busy within a kernel is known, not when: it is drawn from the kernel’s start.')));
  on('doc', () => { whole(); hover = null; drawLegend(); label(); b.redraw(); });
  on('select', () => b.redraw());
  on('theme', () => { drawLegend(); label(); });
  return { card, reveal, keepInSight, neighbour, zoom, whole: () => { whole(); b.redraw(); }, view: () => [from, to], redraw: b.redraw };
})();
