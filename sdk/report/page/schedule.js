// ---- a run as a tree over time: kernels, and loops with the contents of one iteration. Iterations are not expanded;
// ---- drawing visits only the visible ones.

// Items: {kernel} or {loop, tripCount, body}. `start` is relative to the enclosing iteration; `seconds` is the time of the
// kernel or of one iteration.
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
      if (!loop) { const kernel = d.kernels[k++]; out.push({ kernel, tripCount: 1, start: kernel.start_seconds - origin, seconds: kernel.seconds, depth }); continue; }
      const start = d.kernels[k].start_seconds, body = items(loop.at, k, loop.end_kernel, start, depth + 1);
      const item = { loop, tripCount: Math.max(1, loop.trip_count), start: start - origin, body, depth };
      item.seconds = body.reduce((t, b) => Math.max(t, b.start + b.seconds * b.tripCount), 0);
      d.loopDepth = Math.max(d.loopDepth, depth + 1);
      average(item, d);
      out.push(item); k = loop.end_kernel;
    }
    return out;
  };
  return items(-1, 0, d.kernels.length, 0, 0);
}

// For loops that are too narrow to draw: the busy time of each unit in one iteration, and the largest memory in use.
function average(item, d) {
  const busy = [0, 0, 0, 0];
  item.use = 0;
  for (const b of item.body) {
    UNITS.forEach((u, i) => { busy[i] += b.seconds * b.tripCount * (b.loop ? b.busy[i] : b.kernel.busy[i]); });
    item.use = Math.max(item.use, b.loop ? b.use : d.hbm.in_use[b.kernel.at] || 0);
  }
  item.busy = busy.map(t => item.seconds > 0 ? t / item.seconds : 0);
}

// The fractions of an iteration's time by colour. Computed again when colours or the filter change.
let mixVersion = 0;
const mixColor = k => tables.matches && !tables.matches(k) ? 'line' : state.color === 'bound' ? k.bound : k.color;
function mixOf(item) {
  if (item.mixVersion === mixVersion) return item.mix;
  const mix = new Map(), add = (name, t) => mix.set(name, (mix.get(name) || 0) + t / (item.seconds || 1));
  for (const b of item.body) if (b.loop) for (const [name, part] of mixOf(b)) add(name, part * b.seconds * b.tripCount); else add(mixColor(b.kernel), b.seconds);
  item.mix = mix; item.mixVersion = mixVersion;
  return mix;
}

// The first item that ends after `t`; items do not overlap.
function firstAfter(items, t) {
  let low = 0, high = items.length;
  while (low < high) { const mid = (low + high) >> 1; if (items[mid].start + items[mid].seconds * items[mid].tripCount <= t) low = mid + 1; else high = mid; }
  return low;
}

// Calls kernel(k, begin, iteration) for kernels, loop(item, begin) for loops, and narrow(item, begin, end) for loops whose
// iterations are shorter than `least`, if they overlap [from, to]. `iteration` has the index in each loop, outermost first.
function walk(items, origin, from, to, least, see, iteration = []) {
  for (let i = firstAfter(items, from - origin); i < items.length; ++i) {
    const item = items[i], begin = origin + item.start;
    if (begin > to) break;
    if (item.kernel) { see.kernel(item.kernel, begin, iteration); continue; }
    see.loop?.(item, begin, iteration);
    const end = begin + item.seconds * item.tripCount;
    if (item.tripCount > 1 && item.seconds < least) { see.narrow?.(item, begin, end); continue; }
    let first = item.seconds > 0 ? Math.max(0, Math.floor((from - begin) / item.seconds)) : 0;
    for (let n = first; n < item.tripCount; ++n) {
      const at = begin + n * item.seconds;
      if (at > to) break;
      walk(item.body, at, from, to, least, see, [...iteration, n]);
      if (item.seconds === 0) break;
    }
  }
}

// The kernel that runs at time t, with the start of its execution and its iterations; null between kernels.
function kernelAt(d, t, slack = 0) {
  let found = null;
  walk(d.tree, 0, t - slack, t + slack, 0, { kernel: (k, begin, iteration) => { if (!found || Math.abs(begin + k.seconds / 2 - t) < Math.abs(found.begin + found.kernel.seconds / 2 - t)) found = { kernel: k, begin, iteration }; } });
  return found;
}
