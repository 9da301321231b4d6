// ---- a program that does not fit: the message, the arrays in memory, possible remedies

const refusal = (() => {
  const title = el('h2', {}, 'This program is refused'), where = el('span', { class: 'soft small' });
  const words = el('p', { class: 'mono', style: 'margin: 0 0 10px' }), measure = el('div'), help = el('div'), whole = el('pre', { class: 'mono', style: 'white-space: pre-wrap; margin: 8px 0 0' });
  const rows = () => (now().refusal?.buffers || []).map(b => now().buffers[b]).filter(Boolean);
  const columns = () => {
    const most = Math.max(1, ...rows().map(b => b.padded_bytes));
    return [{ name: 'takes', of: b => b.padded_bytes, show: b => bytesText(b.padded_bytes), share: b => b.padded_bytes / most, tint: () => 'var(--bad)' }, { name: 'padding', of: b => b.waste, show: b => b.waste > 0 ? `${bytesText(b.waste)}, ${percent(b.waste, b.padded_bytes)}` : 'none' },
      { name: 'array', of: b => b.name, left: true, cls: 'cut', full: b => b.name }, { name: 'is', of: b => b.kind, left: true }, { name: 'layout', of: b => b.shape, show: b => shapeText(b.shape), left: true, cls: 'wrap' },
      { name: 'source', of: b => sourceOf(b), show: b => el('span', { title: b.op_name }, sourceOf(b) || b.op_name), left: true, cls: 'wrap' }, { name: 'remedy', of: b => b.remedy, left: true, cls: 'wrap' }];
  };
  const table = grid({ label: 'largest allocations', columns, rows, most: 10, empty: 'nothing is known of its arrays', chosen: b => b.at === state.buffer, choose: b => selectBuffer(b.at) });
  // A bar for the required bytes: data, padding, and a mark at the limit.
  function fill() {
    const d = now(), r = d.refusal;
    card.hidden = !r;
    if (!r) return;
    const k = d.kernels[r.kernel], vmem = r.space !== 'hbm', space = vmem ? 'scoped VMEM' : 'HBM', list = rows();
    const taken = list.reduce((t, b) => t + b.padded_bytes, 0), waste = list.reduce((t, b) => t + b.waste, 0), need = Math.max(r.required_bytes, 1);
    where.textContent = `${bytesText(r.required_bytes)} of ${space} needed, ${bytesText(r.limit_bytes)} available` + (vmem ? k ? `, for one kernel: ${k.name}` : '' : k ? `; the fullest moment: while ${k.name} runs` : '');
    const first = r.message.split('\n')[0];  // it may name a kernel with thousands of operands
    words.textContent = first.length > 480 ? `${first.slice(0, 260)} … ${first.slice(-200)}` : first;
    const part = v => `width: ${(100 * v / need).toFixed(2)}%`;
    measure.replaceChildren(...(vmem ? [] : [el('div', { class: 'meter', style: 'height: 14px; position: relative', role: 'img', 'aria-label': `${bytesText(r.required_bytes)} needed, ${bytesText(r.limit_bytes)} available` }, el('i', { style: `${part(Math.max(0, taken - waste))}; background: var(--use)` }), el('i', { style: `${part(waste)}; background: var(--warn)` }), el('i', { style: `position: absolute; left: ${(100 * r.limit_bytes / need).toFixed(2)}%; top: 0; bottom: 0; width: 2px; background: var(--bad)` })),
      el('div', { class: 'legend' }, el('span', {}, el('i', { style: 'background: var(--use)' }), `data ${bytesText(Math.max(0, taken - waste))}`), el('span', {}, el('i', { style: 'background: var(--warn)' }), `padding ${bytesText(waste)}, ${percent(waste, taken)}`), el('span', {}, el('i', { style: 'background: var(--bad)' }), `limit ${bytesText(r.limit_bytes)}`))]));
    help.replaceChildren(...(r.remedies.length ? [el('h3', { style: 'margin: 14px 0 4px; font-size: 13px' }, 'What may help'), el('ul', { class: 'notes' }, r.remedies.map(t => el('li', {}, t)))] : []));
    whole.textContent = r.message;
    table.update();
  }
  const card = el('section', { class: 'card', id: 'refusal', style: 'border-color: var(--bad)' }, el('div', { class: 'head' }, title, where), el('div', { class: 'inner' }, words, measure, help), table.box, el('details', { style: 'padding: 8px 14px' }, el('summary', { class: 'soft' }, 'the whole message'), whole));
  title.style.color = 'var(--bad)';
  on('doc', fill); on('select', () => table.mark());
  return { card, rows };
})();
