// ---- tables: sorted by any column, filtered, with a limited number of rows, operated by keys

// columns: {name, of: row => value (sorted by), show: row => text or element, left, share: row => 0..1, tint, cls, title}
function grid({ columns, rows, chosen, choose, label, by = 0, up = false, most = 50, empty = 'nothing' }) {
  let order = by, ascending = up, shown = most, list = [];
  const head = el('tr'), body = el('tbody'), table = el('table', { 'aria-label': label }, el('thead', {}, head), body);
  const more = el('div', { class: 'more-rows', hidden: true }), none = el('div', { class: 'none', hidden: true }, empty);
  const box = el('div', {}, el('div', { class: 'scroll' }, table), none, more);
  function sort() {
    const value = columns()[order].of;
    list.sort((a, b) => { const p = value(a), q = value(b), c = typeof p === 'string' ? p.localeCompare(q) : p === q ? 0 : p < q ? -1 : 1; return (ascending ? c : -c) || (a.at ?? 0) - (b.at ?? 0); });
  }
  function fill() {
    const cols = columns();
    head.replaceChildren(...cols.map((c, i) => el('th', { class: c.left ? 'left' : '', scope: 'col', title: c.title, 'aria-sort': i === order ? (ascending ? 'ascending' : 'descending') : undefined },
      el('button', { onclick: () => { if (order === i) ascending = !ascending; else { order = i; ascending = typeof (list[0] ? c.of(list[0]) : 0) === 'string'; } sort(); fill(); } }, c.name + (i === order ? (ascending ? ' ↑' : ' ↓') : '')))));
    body.replaceChildren(...list.slice(0, shown).map(r => el('tr', { 'data-at': choose ? r.at : undefined, tabindex: choose ? 0 : undefined, class: chosen?.(r) ? 'on' : '', onclick: () => choose?.(r), onkeydown: e => keys(e, r) },
      cols.map(c => { const content = c.show ? c.show(r) : c.of(r); const cell = el('td', { class: [c.left ? 'left' : '', c.cls || '', c.share ? 'share' : ''].join(' ').trim() || undefined, title: c.full?.(r) || undefined }, content); if (c.share) { cell.style.setProperty('--part', Math.min(100, 100 * c.share(r)).toFixed(2)); if (c.tint) cell.style.setProperty('--tint', c.tint(r)); } return cell; }))));
    more.hidden = list.length <= shown; none.hidden = list.length > 0; table.hidden = list.length === 0;
    more.replaceChildren(el('button', { onclick: () => { shown += 200; fill(); } }, 'show 200 more'), el('span', { class: 'soft small' }, `${countText(Math.min(shown, list.length))} of ${countText(list.length)}`));
  }
  function keys(e, r) {
    const row = e.currentTarget;
    if (e.key === 'Enter' || e.key === ' ') { e.preventDefault(); choose?.(r); }
    if (e.key === 'ArrowDown' && row.nextSibling) { e.preventDefault(); row.nextSibling.focus(); }
    if (e.key === 'ArrowUp' && row.previousSibling) { e.preventDefault(); row.previousSibling.focus(); }
  }
  function update(keep = false) { if (!keep) shown = most; list = rows(); order = Math.min(order, columns().length - 1); sort(); fill(); }
  // The selection moves without a new table, so that the keyboard focus stays.
  function mark() { for (const row of body.children) row.classList.toggle('on', !!chosen?.(list[[...body.children].indexOf(row)])); }
  return { box, update, mark, rows: () => list };
}

const origin = x => x.source_file ? el('span', { title: fullSource(x) }, sourceOf(x)) : '';

// ---- kernels, one by one or summed up

const tables = (() => {
  const out = { matches: null };
  const words = el('input', { type: 'search', placeholder: 'find in names, operations, source', 'aria-label': 'find kernels' });
  const group = el('select', { 'aria-label': 'rows' }, ...[['kernel', 'each kernel'], ['source', 'by source line'], ['op', 'by framework’s operation'], ['kind', 'by kind'], ['bound', 'by what they wait for']].map(([v, t]) => el('option', { value: v }, t)));
  const kind = el('select', { 'aria-label': 'kind' }), bound = el('select', { 'aria-label': 'waits for' });
  const count = el('span', { class: 'soft small' });
  function filterChanged() {
    const text = words.value.trim().toLowerCase().split(/\s+/).filter(Boolean), k = kind.value, u = bound.value;
    out.matches = text.length || k || u ? x => (!k || x.category === k) && (!u || x.bound === u) && text.every(t => x.text.includes(t)) : null;
    mixVersion++; table.update(); timeline.redraw(); compare?.redraw(); roofline.redraw();
  }
  const rows = () => {
    const d = now(), kept = d.kernels.filter(k => !out.matches || out.matches(k));
    const sum = kept.reduce((t, k) => t + k.total, 0);
    count.textContent = `${countText(kept.length)} of ${countText(d.kernels.length)} kernels, ${timeText(sum)} (${percent(sum, d.totals.seconds)})`;
    if (group.value === 'kernel') return kept;
    const key = { source: k => fullSource(k) || '(not known)', op: k => k.op_name || '(not known)', kind: k => k.category, bound: k => UNIT_WORDS[k.bound] || k.bound }[group.value];
    const groups = new Map();
    for (const k of kept) {
      const id = key(k); let g = groups.get(id);
      if (!g) groups.set(id, g = { name: id, at: k.at, kernels: 0, executions: 0, total: 0, work: 0, hbm: 0, longest: k, roof: 0 });
      g.kernels++; g.executions += k.executions; g.total += k.total; g.work += k.work * k.executions; g.hbm += k.hbm_bytes * k.executions; g.roof += k.roofline_seconds * k.executions;
      if (k.total > g.longest.total) g.longest = k;
    }
    return [...groups.values()];
  };
  const tint = k => `var(--${state.color === 'bound' ? k.bound : k.color})`;
  const columns = () => {
    const total = now().totals.seconds, most = Math.max(1e-30, ...table.rows().slice(0, 100000).map(r => r.total));
    if (group.value !== 'kernel') return [
      { name: 'time in all', of: g => g.total, show: g => timeText(g.total), share: g => g.total / most, tint: g => tint(g.longest) }, { name: 'share', of: g => g.total, show: g => percent(g.total, total) },
      { name: group.options[group.selectedIndex].text.replace('by ', ''), of: g => g.name, left: true, cls: 'wrap' }, { name: 'kernels', of: g => g.kernels }, { name: 'runs', of: g => g.executions, show: g => countText(g.executions) },
      { name: 'of roofline', of: g => g.total > 0 ? g.roof / g.total : 0, show: g => g.total > 0 ? percent(g.roof, g.total) : '', title: 'the time the roofline allows over the time taken' },
      { name: 'FLOP', of: g => g.work, show: g => g.work ? flopText(g.work) : '' }, { name: 'HBM traffic', of: g => g.hbm, show: g => g.hbm ? bytesText(Math.round(g.hbm)) : '' }, { name: 'longest kernel', of: g => g.longest.name, left: true }];
    return [
      { name: 'time in all', of: k => k.total, show: k => timeText(k.total), share: k => k.total / most, tint }, { name: 'share', of: k => k.total, show: k => percent(k.total, total) },
      { name: 'kernel', of: k => k.name, show: k => [el('i', { class: 'dot', style: `background: ${tint(k)}` }), k.name], left: true }, { name: 'kind', of: k => k.category, left: true },
      { name: 'waits for', of: k => k.bound, show: k => el('span', { title: UNIT_WORDS[k.bound] }, UNIT_NAMES[k.bound] || k.bound), left: true },
      { name: 'runs', of: k => k.executions, show: k => countText(k.executions) }, { name: 'one takes', of: k => k.seconds, show: k => timeText(k.seconds) },
      { name: 'of roofline', of: k => k.utilisation, show: k => k.utilisation > 0 ? percent(k.utilisation) : '', title: 'the time the roofline allows over the time taken' },
      { name: 'FLOP', of: k => k.work, show: k => k.work ? flopText(k.work) : '' }, { name: 'HBM traffic', of: k => k.hbm_bytes, show: k => k.hbm_bytes ? bytesText(Math.round(k.hbm_bytes)) : '' },
      { name: 'source', of: k => sourceOf(k), show: origin, left: true }, { name: 'operation', of: k => k.op_name, left: true, cls: 'cut', full: k => k.op_name }];
  };
  const table = grid({ label: 'kernels', columns, rows, most: 25, empty: 'no kernel matches', chosen: r => (r.longest || r).at === state.kernel, choose: r => { const at = (r.longest || r).at; selectKernel(at); timeline.keepInSight(at); } });
  words.oninput = kind.onchange = bound.onchange = filterChanged;
  group.onchange = () => table.update();
  words.onkeydown = e => { if (e.key === 'Escape' && words.value) { words.value = ''; filterChanged(); e.stopPropagation(); } };
  const choices = (select, values, all, text = v => v) => select.replaceChildren(el('option', { value: '' }, all), ...values.map(v => el('option', { value: v }, text(v))));
  on('doc', () => {
    const d = now();
    choices(kind, [...new Set(d.kernels.map(k => k.category))].sort(), 'all kinds');
    choices(bound, ['mxu', 'vpu', 'hbm', 'ici', 'fixed'].filter(u => d.kernels.some(k => k.bound === u)), 'all waits', u => 'waits for ' + UNIT_NAMES[u]);
    filterChanged();
  });
  on('select', () => table.mark());
  on('theme', () => table.update(true));
  out.card = el('section', { class: 'card', id: 'kernels' },
    el('div', { class: 'head' }, el('h2', {}, 'Kernels'), count, el('span', { class: 'grow' }), el('div', { class: 'controls' }, words, group, kind, bound)), table.box);
  out.find = () => words;
  out.filter = filterChanged;
  out.kernels = table;
  return out;
})();
