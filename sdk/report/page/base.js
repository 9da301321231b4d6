'use strict';
// ---- helpers of all parts: documents, numbers as text, elements, colours, the selection

const $ = id => document.getElementById(id);
const el = (tag, attributes = {}, ...children) => {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) e.addEventListener(name.slice(2), value);
    else if (name === 'style') e.style.cssText = value;
    else e.setAttribute(name, value === true ? '' : value);
  }
  e.append(...children.flat().filter(c => c !== undefined && c !== null && c !== false && c !== ''));
  return e;
};

const digits = v => v === 0 ? '0' : Math.abs(v) >= 100 ? v.toFixed(0) : Math.abs(v) >= 10 ? v.toFixed(1) : v.toFixed(2);
const scaled = (v, steps) => { for (const [size, name] of steps) if (Math.abs(v) >= size * 0.9995) return digits(v / size) + ' ' + name; const [size, name] = steps[steps.length - 1]; return digits(v / size) + ' ' + name; };
const SI = [[1e15, 'P'], [1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k'], [1, '']];
const timeText = s => s === 0 ? '0' : scaled(s, [[1, 's'], [1e-3, 'ms'], [1e-6, 'µs'], [1e-9, 'ns']]);
const flopText = v => scaled(v, SI) + 'FLOP';
const rateText = v => scaled(v, SI) + 'FLOP/s';
const bandText = v => scaled(v, SI) + 'B/s';
const bytesText = v => v < 1024 && v > -1024 ? v + ' B' : scaled(v, [[2 ** 50, 'PiB'], [2 ** 40, 'TiB'], [2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB']]);
const countText = v => Math.abs(v) < 1e5 ? String(v) : v.toLocaleString('en');
const percent = (part, whole = 1) => !(whole > 0) || !part ? '0 %' : (p => p !== 0 && p < 0.1 ? '< 0.1 %' : (p >= 99.95 || p >= 10 ? p.toFixed(p >= 99.95 ? 0 : 1) : p.toFixed(1)) + ' %')(100 * part / whole);
const times = v => !isFinite(v) ? '∞' : digits(v) + '×';
const sourceOf = x => x.source_file ? x.source_file.split('/').slice(-2).join('/') + (x.source_line ? ':' + x.source_line : '') : '';
// A shape and its layout, with a line break between them.
const shapeText = text => el('span', { class: 'mono shape' }, text.split(/(?=\{)/).map(t => el('span', {}, t)));
const fullSource = x => x.source_file ? x.source_file + (x.source_line ? ':' + x.source_line : '') : '';

const UNITS = ['mxu', 'vpu', 'hbm', 'ici'];
const UNIT_NAMES = { mxu: 'MXU', vpu: 'VPU', hbm: 'HBM', ici: 'ICI', fixed: 'fixed cost' };
const UNIT_WORDS = { mxu: 'matrix unit', vpu: 'vector unit', hbm: 'memory', ici: 'links between chips', fixed: 'fixed cost of a kernel' };
// A kind without a colour of its own gets that of a similar kind.
const KIND_COLORS = { matmul: 'matmul', dot: 'matmul', convolution: 'convolution', elementwise: 'elementwise', loop: 'elementwise', reduction: 'reduction', reduce: 'reduction', movement: 'movement', transpose: 'movement', reshape: 'movement', slice: 'movement', copy: 'copy', sort: 'sort', collective: 'collective', scatter: 'scatter', gather: 'scatter' };
const kindColor = kind => KIND_COLORS[kind] || Object.keys(KIND_COLORS).find(k => kind.includes(k)) && KIND_COLORS[Object.keys(KIND_COLORS).find(k => kind.includes(k))] || 'other';

// Colours of the style sheet, looked up once for each theme.
let colorCache = new Map();
const color = name => { let c = colorCache.get(name); if (!c) { c = getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim(); colorCache.set(name, c); } return c; };

// ---- documents

const problems = [];
const documents = [];
for (const script of document.querySelectorAll('script.document')) {
  const title = script.dataset.title;
  try {
    const d = JSON.parse(script.textContent);
    if (d.format !== 'backplane.tpu_report') throw new Error('its format is not backplane.tpu_report');
    if (d.version !== 1) throw new Error(`its version is ${d.version}, this page reads 1`);
    documents.push(prepare(d, title));
  } catch (e) { problems.push(`${title || 'a document'}: ${e.message}`); }
}

// Adds the members that a document omits, and values that are derived once.
function prepare(d, title) {
  d.module ||= 'program'; d.machine ||= {}; d.machine_name ||= d.machine.name || 'machine';
  d.title = title || `${d.module} on ${d.machine_name}`;
  d.totals ||= {}; d.hbm ||= {}; d.kernels ||= []; d.buffers ||= []; d.loops ||= []; d.notes ||= []; d.prefetches ||= [];
  for (const name of ['seconds', 'cycles', 'flops', 'transcendentals', 'hbm_bytes']) d.totals[name] ||= 0;
  d.totals.seconds_by_bound ||= {}; d.totals.busy_seconds ||= {};
  d.hbm.capacity ||= 0; d.hbm.peak ||= 0; d.hbm.in_use ||= [];
  d.kernels.forEach((k, i) => {
    k.at = i; k.name ||= 'kernel ' + i; k.category ||= 'other'; k.bound ||= 'fixed'; k.executions ??= 1; k.loop ??= -1;
    for (const name of ['start_seconds', 'seconds', 'cycles', 'mxu_cycles', 'vpu_cycles', 'hbm_cycles', 'prefetch_cycles', 'ici_cycles', 'utilisation', 'roofline_seconds', 'matrix_flops', 'flops', 'transcendentals', 'hbm_bytes', 'scoped_vmem_bytes']) k[name] ||= 0;
    k.contents ||= ''; k.op_name ||= ''; k.reads ||= []; k.writes ||= [];
    k.total = k.seconds * k.executions;
    k.work = Math.max(k.flops, k.matrix_flops);  // as the unit that does it counts: each pass of a product
    k.color = kindColor(k.category);
    k.busy = UNITS.map(u => k.cycles > 0 ? Math.min(1, (k[u + '_cycles'] + (u === 'hbm' ? k.prefetch_cycles : 0)) / k.cycles) : 0);
    k.ahead = [];
    k.text = [k.name, k.category, k.contents, k.op_name, fullSource(k)].join('\n').toLowerCase();
  });
  d.loops.forEach((l, i) => { l.at = i; l.parent ??= -1; l.trip_count ??= 1; l.known ??= true; l.first_kernel ||= 0; l.end_kernel ||= 0; l.name ||= 'loop ' + i; });
  d.buffers.forEach((b, i) => {
    b.at = i; b.padded_bytes ||= 0; b.unpadded_bytes ||= 0; b.kind ||= 'temporary'; b.space ||= 'hbm'; b.shape ||= ''; b.name ||= 'array ' + i; b.op_name ||= ''; b.remedy ||= '';
    b.first_kernel ||= 0; b.last_kernel ||= 0; b.readers = []; b.writers = [];
    b.waste = b.padded_bytes - b.unpadded_bytes; b.blowup = b.unpadded_bytes > 0 ? b.padded_bytes / b.unpadded_bytes : b.padded_bytes > 0 ? Infinity : 1;
    b.text = [b.name, b.shape, b.kind, b.op_name, fullSource(b), b.remedy].join('\n').toLowerCase();
  });
  for (const k of d.kernels) {
    for (const b of k.reads) d.buffers[b]?.readers.push(k.at);
    for (const b of k.writes) d.buffers[b]?.writers.push(k.at);
  }
  for (const p of d.prefetches) { p.buffer ||= 0; p.kernel ||= 0; p.first_kernel ||= 0; p.bytes ||= 0; p.seconds ||= 0; p.wait_seconds ||= 0; d.kernels[p.kernel]?.ahead.push(p); }
  if (d.refusal) { const r = d.refusal; r.message ||= 'refused'; r.space ||= 'hbm'; r.kernel ??= -1; r.required_bytes ||= 0; r.limit_bytes ||= 0; r.buffers ||= []; r.remedies ||= []; }
  const inHbm = d.buffers.filter(b => b.space === 'hbm');
  d.padded = inHbm.reduce((sum, b) => sum + b.padded_bytes, 0);
  d.waste = inHbm.reduce((sum, b) => sum + b.waste, 0);
  d.known = d.loops.every(l => l.known);
  const bounds = d.totals.seconds_by_bound;
  d.bounds = ['mxu', 'vpu', 'hbm', 'ici', 'fixed'].map(u => [u, bounds[u] || 0]).sort((a, b) => b[1] - a[1]);
  d.boundSum = d.bounds.reduce((sum, [, s]) => sum + s, 0);
  d.tree = buildTree(d);
  d.end = Math.max(d.totals.seconds, d.tree.reduce((end, i) => Math.max(end, i.start + i.seconds * i.tripCount), 0));
  d.fullest = d.hbm.in_use.reduce((best, v, i) => v > d.hbm.in_use[best] ? i : best, 0);
  return d;
}

// ---- the current document and selection; parts are notified of changes

const state = { doc: 0, kernel: -1, buffer: -1, color: 'kind' };
const listeners = { select: [], doc: [], theme: [] };
const on = (event, f) => listeners[event].push(f);
const emit = event => { for (const f of listeners[event]) f(); };
const now = () => documents[state.doc];
function selectKernel(at, doc = state.doc) { if (doc !== state.doc) showDocument(doc); state.kernel = at; state.buffer = -1; emit('select'); }
function selectBuffer(at) { state.buffer = at; state.kernel = -1; emit('select'); }
function showDocument(at) { state.doc = at; state.kernel = state.buffer = -1; emit('doc'); emit('select'); }

const paint = k => color(state.color === 'bound' ? k.bound : k.color);

// ---- the tooltip

function showTip(x, y, content) {
  const tip = $('tip'); tip.replaceChildren(...[content].flat()); tip.hidden = false;
  const w = tip.offsetWidth, h = tip.offsetHeight;
  tip.style.left = Math.max(4, x + 14 + w > innerWidth ? x - w - 10 : x + 14) + 'px';
  tip.style.top = Math.max(4, y + 16 + h > innerHeight ? y - h - 10 : y + 16) + 'px';
}
const hideTip = () => { $('tip').hidden = true; };
function kernelTip(k, d = now()) {
  return [el('b', {}, k.name), el('div', {}, [k.category, k.contents].filter(Boolean).join(': ')),
    el('div', {}, `${timeText(k.seconds)}${k.executions !== 1 ? ` × ${countText(k.executions)} = ${timeText(k.total)}` : ''} · ${percent(k.total, d.totals.seconds)} of the run · waits for ${UNIT_NAMES[k.bound] || k.bound}`),
    k.work > 0 || k.hbm_bytes > 0 ? el('div', {}, [k.work > 0 && flopText(k.work), k.hbm_bytes > 0 && bytesText(k.hbm_bytes) + ' of HBM'].filter(Boolean).join(' · ')) : '',
    k.op_name || k.source_file ? el('div', {}, [k.op_name, sourceOf(k)].filter(Boolean).join(' · ')) : ''].filter(Boolean);
}
