// ---- padding of each array, and the arrays in HBM at one time

const padding = (() => {
  const words = el('input', { type: 'search', placeholder: 'find arrays', 'aria-label': 'find arrays' }), facts = el('span', { class: 'soft small' });
  const all = el('button', { 'aria-pressed': 'false', title: 'arrays without padding as well', onclick: () => { all.setAttribute('aria-pressed', String(all.getAttribute('aria-pressed') !== 'true')); table.update(); } }, 'all arrays');
  const rows = () => {
    const text = words.value.trim().toLowerCase().split(/\s+/).filter(Boolean), every = all.getAttribute('aria-pressed') === 'true', d = now();
    facts.textContent = `${bytesText(d.waste)} of ${bytesText(d.padded)} in HBM (${percent(d.waste, d.padded)}), all arrays counted once`;
    return d.buffers.filter(b => (every || b.waste > 0) && text.every(t => b.text.includes(t)));
  };
  const columns = () => {
    const most = Math.max(1, ...now().buffers.slice(0, 100000).map(b => b.waste));
    return [{ name: 'padding', of: b => b.waste, show: b => bytesText(b.waste), share: b => b.waste / most, tint: () => 'var(--warn)' }, { name: 'blow-up', of: b => b.blowup, show: b => times(b.blowup), title: 'bytes taken over bytes of data' },
      { name: 'takes', of: b => b.padded_bytes, show: b => bytesText(b.padded_bytes) }, { name: 'data', of: b => b.unpadded_bytes, show: b => bytesText(b.unpadded_bytes) }, { name: 'array', of: b => b.name, left: true, cls: 'cut', full: b => b.name },
      { name: 'layout', of: b => b.shape, show: b => shapeText(b.shape), left: true, cls: 'wrap' }, { name: 'is', of: b => b.kind, show: b => b.kind + (b.space === 'hbm' ? '' : ' in ' + b.space.toUpperCase()), left: true },
      { name: 'source', of: b => sourceOf(b), show: origin, left: true }, { name: 'remedy', of: b => b.remedy, left: true, cls: 'wrap' }];
  };
  const table = grid({ label: 'padding', columns, rows, most: 12, empty: 'no array is padded', chosen: b => b.at === state.buffer, choose: b => selectBuffer(b.at) });
  words.oninput = () => table.update();
  on('doc', () => table.update()); on('select', () => table.mark());
  return { table, card: el('section', { class: 'card', id: 'padding' }, el('div', { class: 'head' }, el('h2', {}, 'Padding'), facts, el('span', { class: 'grow' }), el('div', { class: 'controls' }, words, all)), table.box) };
})();

const memory = (() => {
  const title = el('span', { class: 'soft small' });
  // The kernel whose arrays are shown: the selected one, or else the one with the most memory in use.
  const moment = () => state.kernel >= 0 ? state.kernel : now().fullest;
  const rows = () => {
    const d = now(), at = moment(), k = d.kernels[at], live = d.buffers.filter(b => b.space === 'hbm' && b.first_kernel <= at && b.last_kernel >= at);
    const use = d.hbm.in_use[at];
    title.textContent = k ? `${use !== undefined ? bytesText(use) + ' in use ' : ''}while ${k.name} runs${state.kernel >= 0 ? '' : ', the fullest moment'}` : 'arguments and results';
    return k ? live : d.buffers.filter(b => b.space === 'hbm');
  };
  const lives = b => {
    const d = now(), end = d.kernels.length - 1;
    if (b.first_kernel <= 0 && b.last_kernel >= end) return 'all the time';
    return b.first_kernel === b.last_kernel ? `kernel ${b.first_kernel}` : `kernels ${b.first_kernel} to ${Math.min(b.last_kernel, end)}`;
  };
  const columns = () => {
    const most = Math.max(1, ...rows().map(b => b.padded_bytes));
    return [{ name: 'takes', of: b => b.padded_bytes, show: b => bytesText(b.padded_bytes), share: b => b.padded_bytes / most, tint: () => 'var(--use)' }, { name: 'array', of: b => b.name, left: true, cls: 'cut', full: b => b.name }, { name: 'is', of: b => b.kind, left: true },
      { name: 'layout', of: b => b.shape, show: b => shapeText(b.shape), left: true, cls: 'wrap' }, { name: 'lives', of: b => b.last_kernel - b.first_kernel, show: lives, left: true }];
  };
  const table = grid({ label: 'arrays in HBM', columns, rows, most: 8, empty: 'HBM is empty', chosen: b => b.at === state.buffer, choose: b => selectBuffer(b.at) });
  on('doc', () => table.update()); on('select', () => { if (state.buffer < 0) table.update(true); else table.mark(); });
  return { card: el('section', { class: 'card', id: 'memory' }, el('div', { class: 'head' }, el('h2', {}, 'In HBM'), title, el('span', { class: 'grow' }), el('button', { onclick: () => { const at = now().fullest; if (now().kernels.length) { selectKernel(at); timeline.keepInSight(at); } } }, 'the fullest moment')), table.box) };
})();
