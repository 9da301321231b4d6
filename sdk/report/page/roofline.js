// ---- the roofline: each kernel by its operations per byte and per second, below the machine's limits

const roofline = (() => {
  const LEFT = 74, RIGHT = 62, NONE = 58, TOP = 16, BOTTOM = 40;
  const b = board(w => Math.max(300, Math.min(500, w * 0.7)), 'roofline plot of the kernels', { keys: false });
  let points = [], hover = null, axes = null;

  function layout(w, h) {
    const d = now(), m = d.machine, plotted = d.kernels.filter(k => k.seconds > 0 && k.executions > 0);
    const withBoth = plotted.filter(k => k.work > 0 && k.hbm_bytes > 0), rated = plotted.filter(k => k.work > 0);
    const peak = m.matrix_flops_per_second || 0, band = m.hbm_bytes_per_second || 0, ridge = band > 0 ? peak / band : 1;
    let xl = ridge / 100, xh = ridge * 20, yh = peak * Math.max(1, ...Object.values(m.matrix_speed || {})), yl = peak / 1e4;
    for (const k of withBoth) { xl = Math.min(xl, k.work / k.hbm_bytes); xh = Math.max(xh, k.work / k.hbm_bytes); }
    // The slowest few of many kernels do not extend the scale.
    for (const k of rated) yl = Math.min(yl, k.work / k.seconds);
    xl = Math.max(xl, ridge * 1e-7) / 1.5; xh *= 1.5; yl = Math.max(yl, yh * 1e-9) / 2; yh = Math.max(yh, 1) * 2.2;
    const hasNone = plotted.some(k => k.work <= 0), hasVmem = rated.some(k => k.hbm_bytes <= 0);
    const x0 = LEFT + (hasNone ? NONE : 0), x1 = w - 14 - (hasVmem ? RIGHT : 0), y0 = h - BOTTOM, y1 = TOP;
    const L = Math.log10, X = v => x0 + (L(v) - L(xl)) / (L(xh) - L(xl)) * (x1 - x0), Y = v => y0 - (L(v) - L(yl)) / (L(yh) - L(yl)) * (y0 - y1);
    axes = { X, Y, xl, xh, yl, yh, x0, x1, y0, y1, hasNone, hasVmem, peak, band, ridge, m };
    const total = d.totals.seconds || 1;
    points = plotted.map(k => {
      const r = 2.5 + 11 * Math.sqrt(Math.min(1, k.total / total));
      if (k.work <= 0) {  // moves data only: its height is the part of the bandwidth that it reaches
        const part = band > 0 ? Math.min(1, k.hbm_bytes / k.seconds / band) : 0;
        return { k, r, x: LEFT + NONE / 2 - 4 + ((k.at * 7) % 23 - 11), y: y0 - part * (y0 - y1) };
      }
      const y = Y(Math.min(yh, Math.max(yl, k.work / k.seconds)));
      return { k, r, x: k.hbm_bytes > 0 ? X(Math.min(xh, Math.max(xl, k.work / k.hbm_bytes))) : x1 + RIGHT / 2 + 2 + ((k.at * 7) % 19 - 9), y };
    }).sort((p, q) => q.r - p.r);
  }

  b.draw = (g, w, h) => {
    layout(w, h);
    const { X, Y, xl, xh, yl, yh, x0, x1, y0, y1, hasNone, hasVmem, peak, band, ridge, m } = axes;
    // Powers of ten.
    for (let e = Math.ceil(Math.log10(xl)); Math.pow(10, e) <= xh; ++e) {
      const px = Math.round(X(Math.pow(10, e)));
      g.fillStyle = color('line'); g.fillRect(px, y1, 1, y0 - y1);
      g.fillStyle = color('soft'); g.textAlign = 'center'; if (px > x0 + 10 && px < x1 - 6 || e === Math.ceil(Math.log10(xl))) g.fillText(e >= 0 && e < 5 ? String(Math.pow(10, e)) : e < 0 && e > -4 ? Math.pow(10, e).toFixed(-e) : '1e' + e, px, y0 + 12);
    }
    const every = Math.max(1, Math.ceil(24 / ((y0 - y1) / Math.max(1, Math.log10(yh / yl)))));
    for (let e = Math.ceil(Math.log10(yl)); Math.pow(10, e) <= yh; ++e) {
      const py = Math.round(Y(Math.pow(10, e)));
      g.fillStyle = color('line'); g.fillRect(x0, py, x1 - x0, 1);
      g.fillStyle = color('soft'); g.textAlign = 'right'; if (e % every === 0) g.fillText(scaled(Math.pow(10, e), SI).replace(/\.0+ | /, ''), LEFT - 8, py);
    }
    g.fillStyle = color('soft'); g.textAlign = 'center'; g.fillText('operations for each byte of HBM traffic', (x0 + x1) / 2, y0 + 29);
    g.save(); g.translate(11, (y0 + y1) / 2); g.rotate(-Math.PI / 2); g.fillText('FLOP/s', 0, 0); g.restore();
    if (hasNone) {
      g.fillStyle = color('band'); g.fillRect(LEFT, y1, NONE - 8, y0 - y1);
      g.fillStyle = color('soft'); g.fillText('no FLOP', LEFT + NONE / 2 - 4, y0 + 12); g.fillText('% of HBM', LEFT + NONE / 2 - 4, y0 + 27);
      g.fillStyle = color('faint'); g.textAlign = 'left'; for (const p of [0.25, 0.5, 0.75, 1]) g.fillText(100 * p + '', LEFT + 2, y0 - p * (y0 - y1) + (p === 1 ? 7 : 0));
    }
    if (hasVmem) { g.fillStyle = color('band'); g.fillRect(x1 + 8, y1, RIGHT - 8, y0 - y1); g.fillStyle = color('soft'); g.textAlign = 'center'; g.fillText('no HBM', x1 + 4 + RIGHT / 2, y0 + 12); g.fillText('traffic', x1 + 4 + RIGHT / 2, y0 + 27); }

    g.save(); g.beginPath(); g.rect(x0, y1, x1 - x0, y0 - y1); g.clip();
    const roof = (bandwidth, flops, dash, c, width) => { if (!(bandwidth > 0 && flops > 0)) return; g.strokeStyle = color(c); g.lineWidth = width; g.setLineDash(dash); g.beginPath(); g.moveTo(X(xl), Y(xl * bandwidth)); g.lineTo(X(flops / bandwidth), Y(flops)); g.lineTo(X(xh), Y(flops)); g.stroke(); g.setLineDash([]); g.lineWidth = 1; };
    const reach = band * (m.hbm_efficiency || 1);
    // The area below the roof is lighter.
    if (band > 0 && peak > 0) { g.fillStyle = color('accent'); g.globalAlpha = 0.05; g.beginPath(); g.moveTo(X(xl), y0); g.lineTo(X(xl), Y(xl * band)); g.lineTo(X(ridge), Y(peak)); g.lineTo(X(xh), Y(peak)); g.lineTo(X(xh), y0); g.fill(); g.globalAlpha = 1; }
    if (reach < band) roof(reach, peak, [3, 4], 'hbm', 1);
    const vector = m.vector_flops_per_second || 0;
    if (vector > 0) { g.strokeStyle = color('vpu'); g.setLineDash([6, 4]); g.beginPath(); g.moveTo(X(vector / band), Y(vector)); g.lineTo(X(xh), Y(vector)); g.stroke(); g.setLineDash([]); }
    const speeds = new Map(); for (const [type, s] of Object.entries(m.matrix_speed || {})) if (s !== 1) speeds.set(s, [...(speeds.get(s) || []), type]);
    for (const [s, types] of speeds) { g.strokeStyle = color('mxu'); g.setLineDash([2, 4]); g.beginPath(); g.moveTo(X(peak * s / band), Y(peak * s)); g.lineTo(X(xh), Y(peak * s)); g.stroke(); g.setLineDash([]); label(g, x1 - 6, Y(peak * s) - 8, `${types.slice(0, 3).join(', ')}${types.length > 3 ? ' …' : ''} ${rateText(peak * s)}`, 'mxu', 'right'); }
    roof(band, peak, [], 'ink', 1.6);
    if (peak > 0) label(g, x1 - 6, Y(peak) - 8, `bf16 matrix unit ${rateText(peak)}`, 'mxu', 'right');
    if (vector > 0) label(g, x1 - 6, Y(vector) - 8, `vector unit ${rateText(vector)}`, 'vpu', 'right');
    if (band > 0 && peak > 0) {  // along the slope
      const at = Math.sqrt(xl * ridge), px = X(at), py = Y(at * band), slope = Math.atan2(Y(ridge * band) - Y(xl * band), X(ridge) - X(xl));
      g.save(); g.translate(px, py); g.rotate(slope); g.textAlign = 'center'; label(g, 0, -9, `HBM ${bandText(band)}`, 'hbm', 'center'); g.restore();
    }
    g.restore();
    const filter = tables.matches;
    for (const p of points) {
      const dim = filter && !filter(p.k);
      g.globalAlpha = dim ? 0.1 : 0.72; g.fillStyle = paint(p.k); g.beginPath(); g.arc(p.x, p.y, p.r, 0, 7); g.fill();
      if (!dim && p.r > 4) { g.globalAlpha = 1; g.strokeStyle = color('card'); g.stroke(); }
    }
    g.globalAlpha = 1;
    for (const p of points) if (p.k.at === state.kernel || p === hover) { g.strokeStyle = color('ink'); g.lineWidth = 2; g.beginPath(); g.arc(p.x, p.y, p.r + 2, 0, 7); g.stroke(); g.lineWidth = 1; }
  };
  const label = (g, x, y, text, c, align) => { g.textAlign = align; g.lineWidth = 4; g.strokeStyle = color('card'); g.lineJoin = 'round'; g.strokeText(text, x, y); g.lineWidth = 1; g.fillStyle = color(c); g.fillText(text, x, y); };

  function nearest(e) {
    let best = null, least = Infinity; const filter = tables.matches;
    for (const p of points) { if (filter && !filter(p.k)) continue; const far = Math.hypot(p.x - e.offsetX, p.y - e.offsetY) - p.r; if (far < 8 && far <= least) { least = far; best = p; } }
    return best;
  }
  b.canvas.onpointermove = e => {
    const p = nearest(e); if (p !== hover) { hover = p; b.redraw(); }
    b.canvas.style.cursor = p ? 'pointer' : '';
    if (!p) return hideTip();
    const k = p.k, lines = kernelTip(k);
    lines.push(el('div', {}, k.work > 0 ? `${rateText(k.work / k.seconds)}` + (k.hbm_bytes > 0 ? ` at ${digits(k.work / k.hbm_bytes)} operations a byte` : ', nothing from HBM') : `${bandText(k.hbm_bytes / k.seconds)} of HBM traffic`));
    if (k.utilisation > 0) lines.push(el('div', {}, `${percent(k.utilisation)} of what the roofline allows`));
    showTip(e.clientX, e.clientY, lines);
  };
  b.canvas.onpointerleave = () => { hover = null; hideTip(); b.redraw(); };
  b.canvas.onclick = e => { const p = nearest(e); if (p) { selectKernel(p.k.at); timeline.keepInSight(p.k.at); } };
  const card = el('section', { class: 'card', id: 'roofline' },
    el('div', { class: 'head' }, el('h2', {}, 'Roofline'), el('span', { class: 'soft small' }, 'a dot is a kernel, its size the time it takes in all')),
    el('div', { class: 'inner' }, b.canvas));
  on('doc', () => { hover = null; b.redraw(); }); on('select', () => b.redraw());
  return { card, redraw: b.redraw, points: () => points };
})();
