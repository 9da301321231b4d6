// ---- canvases that are as sharp as the screen and follow their box's width

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

// Text cut to a width, measured; empty where not even three letters fit.
function fit(g, text, width) {
  if (width < 18) return '';
  if (g.measureText(text).width <= width) return text;
  let low = 0, high = text.length;
  while (low < high) { const mid = (low + high + 1) >> 1; if (g.measureText(text.slice(0, mid) + '…').width <= width) low = mid; else high = mid - 1; }
  return low >= 3 ? text.slice(0, low) + '…' : '';
}

// Round steps: 1, 2 or 5 times a power of ten, about `count` of them over `span`.
function step(span, count) {
  const raw = span / Math.max(1, count), power = Math.pow(10, Math.floor(Math.log10(raw)));
  return [1, 2, 5, 10].map(m => m * power).find(s => s >= raw * 0.999) || 10 * power;
}
