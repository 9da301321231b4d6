// ---- all data of the selected kernel or array

const details = (() => {
  const box = $('details');
  const line = (name, value) => value === '' || value === undefined || value === null ? [] : [el('dt', {}, name), el('dd', {}, value)];
  const bar = (name, part, tint, text) => [el('span', {}, name), el('span', { class: 'meter' }, el('i', { style: `width: ${Math.min(100, part * 100).toFixed(2)}%; background: var(--${tint})` })), el('span', {}, text)];
  const head = (title, ...buttons) => el('div', { class: 'head' }, el('h2', {}, title), ...buttons, el('button', { onclick: close, 'aria-label': 'close', title: 'close (Esc)' }, '×'));
  const bufferLink = at => { const b = now().buffers[at]; return b ? el('li', {}, el('button', { class: 'link', onclick: () => selectBuffer(at) }, b.name), ' ', el('span', { class: 'soft small' }, `${b.kind}, ${b.space === 'hbm' ? '' : b.space.toUpperCase() + ', '}${bytesText(b.padded_bytes)}`), el('div', { class: 'mono soft' }, b.shape)) : ''; };
  const kernelLink = at => { const k = now().kernels[at]; return k ? el('li', {}, el('button', { class: 'link', onclick: () => { selectKernel(at); timeline.keepInSight(at); } }, k.name), ' ', el('span', { class: 'soft small' }, `${k.category}, ${timeText(k.total)}`)) : ''; };
  const list = (title, items) => items.length ? [el('h3', {}, `${title} (${items.length})`), el('ul', {}, items.slice(0, 40)), items.length > 40 ? el('p', { class: 'soft small' }, `and ${items.length - 40} more`) : ''] : [];
  const where = x => [...line('operation', x.op_name && el('span', { class: 'mono' }, x.op_name)), ...line('source', x.source_file && el('span', { class: 'mono' }, fullSource(x)))];

  // Operands that were copied before the kernel began, and copies for later kernels during it.
  const copies = k => k.ahead.length || k.prefetch_cycles > 0 ? [el('h3', {}, 'copied ahead'), el('ul', {}, k.ahead.map(p => { const b = now().buffers[p.buffer], n = p.kernel - p.first_kernel; return b ? el('li', {}, el('button', { class: 'link', onclick: () => selectBuffer(p.buffer) }, b.name), ' ', el('span', { class: 'soft small' }, `${bytesText(p.bytes)} to ${p.space.toUpperCase()} in ${timeText(p.seconds)}${n > 0 ? `, beside the ${n === 1 ? 'kernel' : n + ' kernels'} before` : ''}${p.wait_seconds > 0 ? `; waits ${timeText(p.wait_seconds)}` : ''}`)) : ''; })),
    k.prefetch_cycles > 0 ? el('p', { class: 'soft small' }, `HBM is busy ${percent(k.prefetch_cycles, k.cycles)} of the time for later kernels.`) : ''] : [];

  function kernel(k) {
    const d = now(), m = d.machine;
    const loops = []; for (let l = k.loop; l >= 0 && d.loops[l] && loops.length < 100; l = d.loops[l].parent) loops.unshift(d.loops[l]);
    const fixed = k.cycles > 0 ? Math.max(0, 1 - Math.max(...k.busy)) : 0;
    const w = k.windows, go = by => () => timeline.neighbour(by);
    return [head(k.name, el('button', { onclick: go(-1), 'aria-label': 'previous kernel', title: 'previous kernel' }, '‹'), el('button', { onclick: go(1), 'aria-label': 'next kernel', title: 'next kernel' }, '›')),
      el('p', { style: 'margin: 2px 0 8px' }, el('span', { class: 'tag' }, k.category), ' ', el('span', { class: 'soft' }, k.contents)),
      el('button', { onclick: () => timeline.reveal(k.at) }, 'show in the timeline'),
      el('dl', {}, line('time in all', `${timeText(k.total)}, ${percent(k.total, d.totals.seconds)}`), line('one execution', `${timeText(k.seconds)}, ${countText(Math.round(k.cycles))} cycles`),
        line('executions', countText(k.executions) + (loops.length ? ' in ' + loops.map(l => `${l.name} × ${l.known ? countText(l.trip_count) : '?'}`).join(', ') : '')), line('place', `kernel ${k.at} of ${d.kernels.length}`), line('waits for', `${UNIT_NAMES[k.bound] || k.bound}: ${UNIT_WORDS[k.bound] || ''}`), where(k)),
      el('h3', {}, 'busy within the kernel'), el('div', { class: 'bars' }, UNITS.flatMap((u, i) => bar(UNIT_NAMES[u], k.busy[i], u, percent(k.busy[i]))), bar('neither', fixed, 'fixed', percent(fixed))),
      el('h3', {}, 'against the roofline'),
      el('dl', {}, line('roofline allows', k.roofline_seconds > 0 ? `${timeText(k.roofline_seconds)}, ${percent(k.utilisation)} of the time` : ''), line('arithmetic', k.work > 0 ? flopText(k.work) : 'none'), line('rate', k.work > 0 && k.seconds > 0 ? rateText(k.work / k.seconds) + (m.matrix_flops_per_second ? `, ${percent(k.work / k.seconds, m.matrix_flops_per_second)} of the matrix unit` : '') : ''), line('transcendentals', k.transcendentals > 0 ? countText(k.transcendentals) : ''),
        line('HBM traffic', k.hbm_bytes > 0 ? `${bytesText(Math.round(k.hbm_bytes))}, ${bandText(k.hbm_bytes / (k.seconds || 1))}` : 'none'), line('least traffic', k.least_hbm_bytes > 0 && k.least_hbm_bytes !== k.hbm_bytes ? bytesText(Math.round(k.least_hbm_bytes)) : ''), line('operations a byte', k.work > 0 && k.hbm_bytes > 0 ? digits(k.work / k.hbm_bytes) : '')),
      w || k.scoped_vmem_bytes > 0 ? [el('h3', {}, 'on chip'), el('dl', {}, line('scoped VMEM', k.scoped_vmem_bytes > 0 ? bytesText(k.scoped_vmem_bytes) + (m.scoped_vmem_bytes ? ` of ${bytesText(m.scoped_vmem_bytes)}` : '') : ''), line('windows', w ? `${countText(w.steps || 0)} of ${w.rows || 0} × ${w.columns || 0}, inner ${w.inner || 0}` : ''), line('their buffers', w?.vmem_bytes ? bytesText(w.vmem_bytes) : ''))] : [],
      copies(k), list('reads', k.reads.map(bufferLink)), list('writes', k.writes.map(bufferLink))];
  }
  function buffer(b) {
    const d = now(), last = Math.max(0, d.kernels.length - 1);
    return [head(b.name), el('p', { class: 'mono', style: 'margin: 2px 0 8px' }, b.shape), el('p', { style: 'margin: 0' }, el('span', { class: 'tag' }, b.kind), ' ', el('span', { class: 'tag' }, b.space.toUpperCase())),
      b.remedy && el('div', { class: 'remedy' }, b.remedy),
      el('dl', {}, line('takes', `${bytesText(b.padded_bytes)} (${countText(b.padded_bytes)} bytes)`), line('data', bytesText(b.unpadded_bytes)), line('padding', b.waste > 0 ? `${bytesText(b.waste)}, ${times(b.blowup)} of the data in all` : 'none'), where(b),
        line('lives', d.kernels.length ? `from kernel ${b.first_kernel} to ${Math.min(b.last_kernel, last)} of ${d.kernels.length}` : '')),
      el('div', { class: 'bars' }, bar('data', b.padded_bytes ? b.unpadded_bytes / b.padded_bytes : 0, 'accent', ''), bar('padding', b.padded_bytes ? b.waste / b.padded_bytes : 0, 'warn', '')),
      list('made by', b.writers.map(kernelLink)), list('read by', b.readers.map(kernelLink))];
  }
  function close() { state.kernel = state.buffer = -1; emit('select'); }
  function show() {
    const d = documents[state.doc], k = d?.kernels[state.kernel], b = d?.buffers[state.buffer], on = !!(k || b);
    box.hidden = !on; document.body.classList.toggle('detailed', on);
    if (on) { box.replaceChildren(...(k ? kernel(k) : buffer(b)).flat(3).filter(Boolean)); box.scrollTop = 0; }
  }
  on('select', show);
  return { close };
})();
