// ---- the page: totals at the top, the parts in order, keys

const tiles = el('section', { class: 'tiles', 'aria-label': 'totals', id: 'totals' });
const notes = el('section', { class: 'card', id: 'notes' });

function fillTiles() {
  const d = now(), t = d.totals, m = d.machine, s = t.seconds;
  const tile = (name, value, small, more, meter) => el('div', { class: 'tile' }, el('div', { class: 'name' }, name), el('div', { class: 'value' }, value, small && ' ', small && el('small', {}, small)), meter, el('div', { class: 'more' }, more));
  const meter = (...parts) => el('div', { class: 'meter' }, parts.map(([part, tint]) => el('i', { style: `width: ${Math.max(0, Math.min(100, 100 * part)).toFixed(2)}%; background: var(--${tint})` })));
  const [most, seconds] = d.bounds[0] || ['fixed', 0], rate = s > 0 ? t.flops / s : 0, band = s > 0 ? t.hbm_bytes / s : 0;
  const executions = d.kernels.reduce((n, k) => n + k.executions, 0);
  tiles.replaceChildren(
    tile(d.refusal ? 'time of a run, if it fitted' : d.known ? 'time of a run' : 'time of a run, at least', timeText(s), d.runs > 0 ? `${countText(d.runs)} runs ${timeText(d.runs * s)}` : '', `${countText(d.kernels.length)} kernels` + (executions !== d.kernels.length ? `, ${countText(executions)} executions` : '') + (m.dispatch_seconds ? `; dispatch adds about ${timeText(m.dispatch_seconds)}` : '')),
    tile('most of it waits for', d.boundSum > 0 ? UNIT_NAMES[most] : '–', d.boundSum > 0 ? percent(seconds, d.boundSum) : '', d.bounds.slice(1).filter(([, v]) => v > 0).map(([u, v]) => `${UNIT_NAMES[u]} ${percent(v, d.boundSum)}`).join(', ') || 'no kernel', meter(...d.bounds.map(([u, v]) => [v / (d.boundSum || 1), u]))),
    tile('arithmetic', rateText(rate), '', `${flopText(t.flops)}; ${percent(rate, m.matrix_flops_per_second)} of the bf16 peak`, meter([rate / (m.matrix_flops_per_second || Infinity), 'mxu'])),
    tile('HBM traffic', bandText(band), '', `${bytesText(Math.round(t.hbm_bytes))}; ${percent(band, m.hbm_bytes_per_second)} of the peak`, meter([band / (m.hbm_bytes_per_second || Infinity), 'hbm'])),
    tile('HBM at its fullest', bytesText(d.hbm.peak), d.hbm.capacity ? 'of ' + bytesText(d.hbm.capacity) : '', `${percent(d.hbm.peak, d.hbm.capacity)} of what a program may use`, meter([d.hbm.peak / (d.hbm.capacity || Infinity), d.hbm.peak > d.hbm.capacity ? 'bad' : 'use'])),
    tile('padding in HBM', bytesText(d.waste), percent(d.waste, d.padded), `of ${bytesText(d.padded)}, all arrays counted once`, meter([d.waste / (d.padded || 1), 'warn'])));
}

function fillNotes() {
  const d = now(), m = d.machine;
  const own = ['For each kernel the busy time of each unit is estimated, not when it is busy; the units work in parallel, so their times can add up to more than the kernel’s.', 'Loops count with their trip count; a loop with an unknown trip count counts as one iteration.'];
  notes.replaceChildren(el('div', { class: 'head' }, el('h2', {}, 'Notes')), el('div', { class: 'inner' },
    el('p', { class: 'soft', style: 'margin: 0 0 8px' }, `${d.machine_name}: ${[m.matrix_flops_per_second && `${rateText(m.matrix_flops_per_second)} in bf16`, m.vector_flops_per_second && `${rateText(m.vector_flops_per_second)} on the vector unit`, m.hbm_bytes_per_second && `${bandText(m.hbm_bytes_per_second)} of HBM bandwidth, of which large transfers reach ${percent(m.hbm_efficiency || 1)}`, m.cycles_per_second && `${digits(m.cycles_per_second / 1e9)} GHz`, d.devices > 1 && `one of ${d.devices} devices` + (d.topology ? ` (${d.topology})` : '')].filter(Boolean).join(', ')}.`),
    el('ul', { class: 'notes' }, [...d.notes, ...own].map(n => el('li', {}, n)))));
}

function fillTabs() {
  $('tabs').replaceChildren(...(documents.length < 2 ? [] : documents.map((d, i) => el('button', { role: 'tab', 'aria-selected': String(i === state.doc), tabindex: i === state.doc ? 0 : -1, onclick: () => showDocument(i), onkeydown: e => { const by = { ArrowRight: 1, ArrowLeft: -1 }[e.key]; if (by) { showDocument((i + by + documents.length) % documents.length); $('tabs').children[state.doc].focus(); } } }, d.title))));
}

// Light or dark, as in the system's settings, until the button is pressed.
const wanted = matchMedia('(prefers-color-scheme: dark)');
let theme = 'system';
function applyTheme() {
  document.documentElement.dataset.theme = theme === 'system' ? (wanted.matches ? 'dark' : 'light') : theme;
  $('theme').textContent = { system: '◐', light: '○', dark: '●' }[theme];
  $('theme').setAttribute('aria-label', 'colours: ' + theme);
  colorCache = new Map();
  mixVersion++; if (documents.length) emit('theme');
}
$('theme').onclick = () => { theme = { system: 'light', light: 'dark', dark: 'system' }[theme]; applyTheme(); };
wanted.addEventListener('change', applyTheme);

const keys = $('keys');
keys.append(el('h2', {}, 'Keys'), el('table', {}, [['←  →', 'previous and next kernel'], ['Enter', 'fill the view with the selected kernel'], ['+  −  or  w  s', 'zoom the timeline'], ['a  d', 'move the timeline'], ['0', 'the whole run'], ['/', 'find kernels'], ['[  ]', 'previous and next program or machine'], ['Esc', 'close what is open'], ['?', 'this list']].map(([k, what]) => el('tr', {}, el('td', {}, k.split('  ').map((x, i) => [i ? ' ' : '', x === 'or' ? 'or' : el('kbd', {}, x)])), el('td', {}, what)))), el('p', { class: 'soft small' }, 'Letters, arrows and + − 0 work when the timeline has the focus, or nothing has.'), el('form', { method: 'dialog' }, el('button', {}, 'close')));
$('help').onclick = () => keys.showModal();
document.addEventListener('keydown', e => {
  if (e.ctrlKey || e.metaKey || e.altKey || keys.open) return;
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName || '');
  if (e.key === 'Escape') { details.close(); hideTip(); if (typing) document.activeElement.blur(); return; }
  if (typing || !documents.length) return;
  if (e.key === '/') { e.preventDefault(); tables.find().focus(); return; }
  if (e.key === '?') { keys.showModal(); return; }
  if ((e.key === '[' || e.key === ']') && documents.length > 1) { showDocument((state.doc + (e.key === ']' ? 1 : -1) + documents.length) % documents.length); return; }
  // Keys of the timeline if nothing else has the focus.
  if (document.activeElement === document.body) $('timeline').querySelector('canvas').dispatchEvent(new KeyboardEvent('keydown', { key: e.key, cancelable: true })) || e.preventDefault();
});

function start() {
  applyTheme();
  for (const p of problems) $('main').append(el('section', { class: 'card' }, el('div', { class: 'none' }, 'Cannot be shown: ' + p)));
  if (!documents.length) { document.title = 'Report'; $('title').textContent = 'Report'; if (!problems.length) $('main').append(el('section', { class: 'card' }, el('div', { class: 'none' }, 'There is no program in this report.'))); return; }
  $('main').append(refusal.card, tiles, timeline.card, el('div', { class: 'two' }, roofline.card, memory.card), tables.card, padding.card);
  if (compare) { $('main').insertBefore(compare.card, timeline.card); compare.update(); }
  $('main').append(notes);
  $('sections').append(...[compare && ['compare', 'Compare'], documents.some(d => d.refusal) && ['refusal', 'Refused'], ['timeline', 'Timeline'], ['roofline', 'Roofline'], ['memory', 'In HBM'], ['kernels', 'Kernels'], ['padding', 'Padding'], ['notes', 'Notes']].filter(Boolean).map(([id, name]) => el('a', { href: '#' + id }, name)));
  on('doc', () => { const d = now(); document.title = d.title; $('title').textContent = d.title; $('title').title = d.title; fillTabs(); fillTiles(); fillNotes(); });
  emit('doc'); emit('select');
}
start();
