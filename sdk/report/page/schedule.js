// ---- a run as a tree in time: kernels, and loops that hold what one turn does. Nothing is written out turn by turn;
// ---- what is drawn is found by walking to the turns in sight.

// Items: {kernel} or {loop, turns, body}; start is counted from the turn around, seconds is of the kernel or one turn.
function buildTree(d) {
  const inside = new Map();
  for (const l of d.loops) { const p = l.parent >= 0 && l.parent < l.at ? l.parent : -1; if (!inside.has(p)) inside.set(p, []); inside.get(p).push(l); }
  for (const list of inside.values()) list.sort((a, b) => a.first_kernel - b.first_kernel);
  d.loopDepth = 0;
  const items = (around, begin, end, origin, depth) => {
    const out = [], loops = depth < 100 ? inside.get(around) || [] : [];
    let next = 0;
    for (let k = begin; k < end;) {
      while (next < loops.length && !(loops[next].first_kernel >= k && loops[next].end_kernel > loops[next].first_kernel && loops[next].end_kernel <= end)) ++next;
      const loop = next < loops.length && loops[next].first_kernel === k ? loops[next++] : null;
      if (!loop) { const kernel = d.kernels[k++]; out.push({ kernel, turns: 1, start: kernel.start_seconds - origin, seconds: kernel.seconds, depth }); continue; }
      const start = d.kernels[k].start_seconds, body = items(loop.at, k, loop.end_kernel, start, depth + 1);
      const item = { loop, turns: Math.max(1, loop.trip_count), start: start - origin, body, depth };
      item.seconds = body.reduce((t, b) => Math.max(t, b.start + b.seconds * b.turns), 0);
      d.loopDepth = Math.max(d.loopDepth, depth + 1);
      average(item, d);
      out.push(item); k = loop.end_kernel;
    }
    return out;
  };
  return items(-1, 0, d.kernels.length, 0, 0);
}

// For loops too narrow to draw: how busy each unit is over a turn, and the most memory in use.
function average(item, d) {
  const busy = [0, 0, 0, 0];
  item.use = 0;
  for (const b of item.body) {
    UNITS.forEach((u, i) => { busy[i] += b.seconds * b.turns * (b.loop ? b.busy[i] : b.kernel.busy[i]); });
    item.use = Math.max(item.use, b.loop ? b.use : d.hbm.in_use[b.kernel.at] || 0);
  }
  item.busy = busy.map(t => item.seconds > 0 ? t / item.seconds : 0);
}

// What a turn of a loop is made of: parts of its time by colour. Worked out again when colours or the filter change.
let mixVersion = 0;
const mixColor = k => tables.matches && !tables.matches(k) ? 'line' : state.color === 'bound' ? k.bound : k.color;
function mixOf(item) {
  if (item.mixVersion === mixVersion) return item.mix;
  const mix = new Map(), add = (name, t) => mix.set(name, (mix.get(name) || 0) + t / (item.seconds || 1));
  for (const b of item.body) if (b.loop) for (const [name, part] of mixOf(b)) add(name, part * b.seconds * b.turns); else add(mixColor(b.kernel), b.seconds);
  item.mix = mix; item.mixVersion = mixVersion;
  return mix;
}

// The first item that ends after `t`; items lie one after another.
function firstAfter(items, t) {
  let low = 0, high = items.length;
  while (low < high) { const mid = (low + high) >> 1; if (items[mid].start + items[mid].seconds * items[mid].turns <= t) low = mid + 1; else high = mid; }
  return low;
}

// Calls kernel(k, begin, turn) for kernels, loop(item, begin) for loops, and narrow(item, begin, end) for loops whose
// turns are shorter than `least`; only where they touch [from, to]. `turn` is the path of turns, outermost first.
function walk(items, origin, from, to, least, see, turn = []) {
  for (let i = firstAfter(items, from - origin); i < items.length; ++i) {
    const item = items[i], begin = origin + item.start;
    if (begin > to) break;
    if (item.kernel) { see.kernel(item.kernel, begin, turn); continue; }
    see.loop?.(item, begin, turn);
    const end = begin + item.seconds * item.turns;
    if (item.turns > 1 && item.seconds < least) { see.narrow?.(item, begin, end); continue; }
    let first = item.seconds > 0 ? Math.max(0, Math.floor((from - begin) / item.seconds)) : 0;
    for (let n = first; n < item.turns; ++n) {
      const at = begin + n * item.seconds;
      if (at > to) break;
      walk(item.body, at, from, to, least, see, [...turn, n]);
      if (item.seconds === 0) break;
    }
  }
}

// The kernel that runs at time t, with where its execution begins and the turns around it; null between kernels.
function kernelAt(d, t, slack = 0) {
  let found = null;
  walk(d.tree, 0, t - slack, t + slack, 0, { kernel: (k, begin, turn) => { if (!found || Math.abs(begin + k.seconds / 2 - t) < Math.abs(found.begin + found.kernel.seconds / 2 - t)) found = { kernel: k, begin, turn }; } });
  return found;
}
