// ---- canvases with the resolution of the screen and the width of their box

function board(height, label, options = {}) {
  const canvas = el('canvas', { role: 'img', 'aria-label': label, tabindex: options.keys ? 0 : undefined, class: options.grab ? 'grab' : undefined });
  const b = { canvas, g: canvas.getContext('2d'), width: 0, height, draw: () => {} };
  let asked = 0;
  b.redraw = () => { if (!asked) asked = requestAnimationFrame(() => { asked = 0; b.now(); }); };
  b.now = () => {
    const ratio = devicePixelRatio || 1, w = canvas.clientWidth;
    if (!w) return;
    const h = typeof height === 'function' ? height(w) : height;
    b.width = w; b.height = h;
    const W = Math.round(w * ratio), H = Math.round(h * ratio);
    if (canvas.width !== W || canvas.height !== H) { canvas.width = W; canvas.height = H; canvas.style.height = h + 'px'; }
    b.g.setTransform(ratio, 0, 0, ratio, 0, 0);
    b.g.clearRect(0, 0, w, h);
    b.g.font = '12px system-ui, sans-serif'; b.g.textBaseline = 'middle'; b.g.textAlign = 'left';
    b.draw(b.g, w, h);
  };
  new ResizeObserver(() => b.redraw()).observe(canvas);
  on('theme', () => b.redraw());
  return b;
}

// Text shortened to a width; empty if not even three characters fit.
function fit(g, text, width) {
  if (width < 18) return '';
  if (g.measureText(text).width <= width) return text;
  let low = 0, high = text.length;
  while (low < high) { const mid = (low + high + 1) >> 1; if (g.measureText(text.slice(0, mid) + '…').width <= width) low = mid; else high = mid - 1; }
  return low >= 3 ? text.slice(0, low) + '…' : '';
}

// A round step (1, 2 or 5 times a power of ten), so that there are about `count` steps in `span`.
function step(span, count) {
  const raw = span / Math.max(1, count), power = Math.pow(10, Math.floor(Math.log10(raw)));
  return [1, 2, 5, 10].map(m => m * power).find(s => s >= raw * 0.999) || 10 * power;
}

// The time by colour in each of `n` columns of pixels over [from, to]. Kernels that are too narrow to draw are summed up,
// so that none hides its neighbours. `wide`, if given, is called for kernels of at least 1.5 pixels, `also` for all
// kernels, with their columns.
function mixture(d, from, to, n, wide, also, loop) {
  const perPx = (to - from) / n, columns = new Map();
  const spread = (begin, end, f) => { for (let c = Math.max(0, Math.floor((begin - from) / perPx)), last = Math.min(n - 1, Math.floor((end - from) / perPx)); c <= last; ++c) { const l = from + c * perPx; f(c, Math.max(0, Math.min(end, l + perPx) - Math.max(begin, l))); } };
  const add = (name, begin, end, part) => { let list = columns.get(name); if (!list) columns.set(name, list = new Float64Array(n)); spread(begin, end, (c, t) => { list[c] += t * part; }); };
  walk(d.tree, 0, from, to, perPx * 2.5, {
    kernel: (k, begin) => { const drawn = wide && k.seconds >= perPx * 1.5; also?.(k, null, f => spread(begin, begin + k.seconds, f), drawn); if (drawn) wide(k, begin); else add(mixColor(k), begin, begin + k.seconds, 1); },
    narrow: (item, begin, end) => { also?.(null, item, f => spread(begin, end, f), false); for (const [name, part] of mixOf(item)) add(name, begin, end, part); },
    loop,
  });
  return { columns, perPx };
}

// Stacked from below, the colour with most time first.
function drawMixture(g, { columns, perPx }, x, top, height) {
  const order = [...columns].map(([name, list]) => [name, list, list.reduce((s, v) => s + v, 0)]).sort((p, q) => q[2] - p[2]);
  if (!order.length) return;
  const filled = new Float64Array(order[0][1].length);
  for (const [name, list] of order) {
    g.fillStyle = color(name);
    for (let c = 0; c < list.length; ++c) if (list[c] > 0) { const h = Math.min(height - filled[c], height * list[c] / perPx); g.fillRect(x + c, top + height - filled[c] - h, 1, h); filled[c] += h; }
  }
}
