"""browser_test.py PAGE_TOOL: the page in a real browser, used by pointer and keyboard. Exits 77 where there is no browser.

Each page gets a script behind its own that drives it and writes what it found into the document, which the browser
prints. Chromium's switches are used: chromium, chromium-browser, google-chrome or chrome on PATH, or BACKPLANE_BROWSER.
"""
import html
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TOOL = sys.argv[1]
BROWSER = os.environ.get("BACKPLANE_BROWSER") or next(
    (b for b in map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome")) if b), None)
if not BROWSER:
    print("skipped: no browser on PATH (chromium, google-chrome); BACKPLANE_BROWSER can name one")
    sys.exit(77)

MACHINE = {"name": "v5e", "cycles_per_second": 1.5e9, "matrix_flops_per_second": 197e12, "vector_flops_per_second": 6.1e12,
           "matrix_speed": {"s8": 2}, "hbm_bytes_per_second": 819e9, "hbm_efficiency": 0.9}


def document(kernels=40, iterations=5, speed=1.0, drop=None, module="jit_step"):
    """`kernels` in all, of which those from 2 to 10 stand in a loop; the times follow from their numbers."""
    ks, buffers, at = [], [], 0.0
    for i in range(kernels):
        seconds, cat = (1 + i % 7) * 1e-6 / speed, ["matmul", "elementwise", "copy"][i % 3]
        unit = ["mxu", "vpu", "hbm"][i % 3]
        k = {"name": f"fusion.{i}", "category": cat, "op_name": f"jit(step)/layer_{i}", "source_file": "model.py",
             "source_line": i + 1, "start_seconds": at, "seconds": seconds, "cycles": seconds * 1.5e9, "bound": unit,
             f"{unit}_cycles": seconds * 1.5e9 * 0.75, "utilisation": 0.5, "roofline_seconds": seconds / 2,
             "flops": [1e8, 1e6, 0][i % 3], "hbm_bytes": 1e6 if i % 5 else 0, "reads": [0], "writes": [i + 1]}
        if i == drop:
            k["name"], k["op_name"] = "other.0", "jit(step)/new"
        at += seconds
        if 2 <= i < 10 and iterations > 1:
            k.update(executions=iterations, loop=0)
            if i == 9:
                at += (iterations - 1) * (at - ks[2]["start_seconds"])
        ks.append(k)
    buffers = [{"name": "x", "shape": "f32[64,3]{0,1:T(4,128)}", "kind": "argument", "space": "hbm", "padded_bytes": 2048, "unpadded_bytes": 768,
                "last_kernel": kernels - 1, "remedy": "Pad dimension 1 from 3 to 4.", "source_file": "model.py", "source_line": 3}]
    buffers += [{"name": f"b.{i}", "shape": "f32[128]{0:T(128)}", "kind": "temporary", "space": "hbm", "padded_bytes": 512,
                 "unpadded_bytes": 512, "first_kernel": i, "last_kernel": i + 1} for i in range(kernels)]
    by = {u: sum(k["seconds"] * k.get("executions", 1) for k in ks if k["bound"] == u) for u in ("mxu", "vpu", "hbm")}
    return {"format": "backplane.tpu_report", "version": 1, "module": module, "machine_name": "v5e", "machine": MACHINE,
            "totals": {"seconds": at, "cycles": at * 1.5e9, "flops": 1e9, "hbm_bytes": 4e7, "seconds_by_bound": by},
            "hbm": {"capacity": 16 << 30, "peak": 4096, "in_use": [2560 + 512 * (i % 4) for i in range(kernels)]}, "kernels": ks,
            "buffers": buffers, "loops": [{"name": "while.1", "trip_count": iterations, "first_kernel": 2, "end_kernel": 10}] if iterations > 1 else [],
            "notes": ["A note with <b>marks</b> & more."]}


BEFORE = "<script>window.failures=[];addEventListener('error',e=>failures.push(e.message));</script>"
HARNESS = """<script>
const check = (what, good) => { if (!good) failures.push(what); };
const same = (what, a, b) => { if (a !== b) failures.push(`${what}: ${a}, expected ${b}`); };
const near = (what, a, b) => { if (!(Math.abs(a - b) <= 1e-9 * Math.abs(b))) failures.push(`${what}: ${a}, expected ${b}`); };
const key = (k, target = document.body) => target.dispatchEvent(new KeyboardEvent('keydown', { key: k, bubbles: true, cancelable: true }));
const point = (canvas, type, x, y, more = {}) => { const r = canvas.getBoundingClientRect(); canvas.dispatchEvent(new PointerEvent(type, { clientX: r.left + x, clientY: r.top + y, bubbles: true, cancelable: true, pointerId: 1, ...more })); };
// setPointerCapture refuses pointers that no device has.
Element.prototype.setPointerCapture = () => {};
const frames = n => new Promise(done => { const next = () => n-- ? setTimeout(next, 20) : done(); next(); });
const colours = canvas => { const d = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data, seen = new Set(); for (let i = 0; i < d.length; i += 4) if (d[i + 3]) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]); return seen.size; };
const rows = id => [...document.querySelectorAll('#' + id + ' tbody tr')];
(async () => {
  await frames(10);
  try { %s } catch (e) { failures.push(String(e && e.stack || e)); }
  const out = document.createElement('pre'); out.id = 'outcome'; out.textContent = JSON.stringify(failures); document.body.append(out);
})();
</script>"""

ONE = """
  near('the tree takes the time of the run', documents[0].tree.reduce((t, i) => Math.max(t, i.start + i.seconds * i.tripCount), 0), documents[0].totals.seconds);
  same('title', $('title').textContent, 'first on v5e');
  check('no tabs for one document', !$('tabs').children.length);
  same('tiles', document.querySelectorAll('.tile').length, 6);
  check('six figures', [...document.querySelectorAll('.tile .value')].every(v => v.textContent.trim()));
  const canvas = document.querySelector('#timeline canvas'), plot = document.querySelector('#roofline canvas');
  check('the timeline is drawn', colours(canvas) > 6); check('the roofline is drawn', colours(plot) > 6);
  same('a point for each kernel', roofline.points().length, 40);
  same('a row for each kernel, up to 25', rows('kernels').length, 25);
  document.querySelector('#kernels .more-rows button').click(); same('more rows', rows('kernels').length, 40); check('and no more', getComputedStyle(document.querySelector('#kernels .more-rows')).display === 'none');
  check('notes are text', $('notes').textContent.includes('<b>marks</b> & more'));
  // Keyboard: next kernel, its details, zoom to it, back.
  key('ArrowRight'); same('the first kernel', state.kernel, 0); key('ArrowRight'); same('the second kernel', state.kernel, 1);
  check('details', !$('details').hidden && $('details').textContent.includes('jit(step)/layer_1') && $('details').textContent.includes('model.py:2'));
  key('Enter'); await frames(3); const [from, to] = timeline.view(), k = documents[0].kernels[1];
  check('zoomed to the kernel', from <= k.start_seconds && to >= k.start_seconds + k.seconds && to - from < k.seconds * 9);
  key('0'); near('the whole run again', timeline.view()[1], documents[0].end);
  // The pointer: a click on a kernel in the loop's third iteration finds that kernel; the tip says the iteration.
  const loop = documents[0].tree.find(i => i.loop), target = loop.body[3], t = loop.start + 2 * loop.seconds + target.start + target.seconds / 2;
  timeline.whole(); await frames(3);
  const x = 92 + t / documents[0].end * (canvas.clientWidth - 92);
  point(canvas, 'pointermove', x, 24 + 4 + 22 + 17 + 4 + 14); check('tip: ' + $('tip').textContent, !$('tip').hidden && $('tip').textContent.includes(target.kernel.name) && $('tip').textContent.includes('iteration 3'));
  point(canvas, 'pointerdown', x, 85); point(canvas, 'pointerup', x, 85); same('clicked', state.kernel, target.kernel.at);
  const before = timeline.view(); timeline.zoom(0.5); await frames(3);
  check('half of it', Math.abs((timeline.view()[1] - timeline.view()[0]) / (before[1] - before[0]) - 0.5) < 0.02);
  const held = timeline.view(); point(canvas, 'pointerdown', 400, 85); point(canvas, 'pointermove', 300, 85); point(canvas, 'pointerup', 300, 85);
  check('dragged to later', timeline.view()[0] > held[0]);
  canvas.dispatchEvent(new WheelEvent('wheel', { deltaY: -50, ctrlKey: true, cancelable: true, bubbles: true })); check('the wheel zooms', timeline.view()[1] - timeline.view()[0] < held[1] - held[0]);
  // The roofline: hover and click.
  const p = roofline.points()[0]; point(plot, 'pointermove', p.x, p.y); check('tip of a point', $('tip').textContent.includes('fusion.'));
  plot.dispatchEvent(new MouseEvent('click', { clientX: plot.getBoundingClientRect().left + p.x, clientY: plot.getBoundingClientRect().top + p.y })); check('a point selects', roofline.points().some(q => q.k.at === state.kernel));
  // Tables: sorted, filtered, summed up.
  const heads = () => [...document.querySelectorAll('#kernels th button')];
  const times = () => tables.kernels.rows().map(r => r.total);
  check('most time first', times().every((t, i, all) => !i || all[i - 1] >= t)); heads()[0].click(); check('least first', times().every((t, i, all) => !i || all[i - 1] <= t));
  const find = tables.find(); find.value = 'matmul layer_3'; find.dispatchEvent(new Event('input')); same('filtered', tables.kernels.rows().length, documents[0].kernels.filter(k => k.category === 'matmul' && k.op_name.includes('layer_3')).length);
  find.value = ''; find.dispatchEvent(new Event('input'));
  const group = document.querySelector('#kernels select'); group.value = 'kind'; group.dispatchEvent(new Event('change')); same('kinds', tables.kernels.rows().length, 3);
  near('sums', tables.kernels.rows().reduce((t, r) => t + r.total, 0), documents[0].totals.seconds); group.value = 'kernel'; group.dispatchEvent(new Event('change'));
  // Padding and memory.
  same('one array is padded', padding.table.rows().length, 1); check('its remedy', rows('padding')[0].textContent.includes('Pad dimension 1 from 3 to 4.') && rows('padding')[0].textContent.includes('2.67×'));
  rows('padding')[0].click(); same('the array is selected', state.buffer, 0); check('and shown', $('details').textContent.includes('Pad dimension 1') && $('details').textContent.includes('read by (40)'));
  key('Escape'); check('closed', $('details').hidden && state.buffer === -1);
  selectKernel(7); check('the arrays in HBM then', rows('memory').map(r => r.children[1].textContent).sort().join() === 'b.6,b.7,x'); check('for how long', rows('memory').some(r => r.textContent.includes('all the time')) && rows('memory').some(r => r.textContent.includes('kernels 7 to 8')));
  // Light and dark.
  const ground = () => getComputedStyle(document.body).backgroundColor, seen = new Set(); for (let i = 0; i < 3; ++i) { $('theme').click(); seen.add(ground()); } same('two grounds', seen.size, 2);
  key('?'); check('the list of keys', $('keys').open);
"""

TWO = """
  same('tabs', $('tabs').children.length, 3); check('compared', !!compare);
  same('pairs', compare.pairs().filter(r => r.a && r.b).length, 39); same('only in the first', compare.pairs().filter(r => !r.b).length, 1); same('only in the second', compare.pairs().filter(r => !r.a).length, 1);
  check('kernels are paired by operation', compare.pairs().filter(r => r.a && r.b).every(r => r.a.op_name === r.b.op_name));
  check('the verdict: ' + $('compare').textContent.slice(0, 300), $('compare').textContent.includes('2.00× as fast as'));
  check('both are drawn', colours(document.querySelector('#compare canvas')) > 4);
  key(']'); same('the next document', state.doc, 1); same('its title', $('title').textContent, 'second "one"'); key('['); key('['); same('around to the last', state.doc, 2);
  same('no loop in it', documents[2].loopDepth, 0);
  const swap = [...document.querySelectorAll('#compare button')].find(b => b.textContent === '⇄'); swap.click(); check('swapped', $('compare').textContent.includes('2.00× as long as'));
  rows('compare').find(r => r.dataset.at !== undefined).click(); check('a pair selects', state.kernel >= 0 && !$('details').hidden);
  check('what cannot be shown is said', document.body.textContent.includes('Cannot be shown: broken'));
"""

BIG = """
  same('all points', roofline.points().length, 12000); same('rows', rows('kernels').length, 25);
  for (let i = 0; i < 12; ++i) { timeline.zoom(0.5); await frames(1); } check('zoomed', timeline.view()[1] - timeline.view()[0] < documents[0].end / 1000);
  const find = tables.find(); find.value = 'layer_11999'; find.dispatchEvent(new Event('input')); same('found', tables.kernels.rows().length, 1);
  rows('kernels')[0].click(); same('selected', state.kernel, 11999); await frames(5); const [f, t] = timeline.view(); check('in sight', f <= documents[0].kernels[11999].start_seconds && t >= documents[0].kernels[11999].start_seconds);
"""

EMPTY = """
  same('no point', roofline.points().length, 0); check('says so', document.body.textContent.includes('no kernel matches')); key('ArrowRight'); key('Enter'); key('+'); same('nothing selected', state.kernel, -1);
"""

REFUSED = """
  const r = $('refusal'); check('the refusal is there', r && !r.hidden); check('its words', r.textContent.includes('E1000: out of memory') && r.textContent.includes('20.0 GiB of HBM needed, 16.0 GiB there'));
  check('what may help', r.textContent.includes('Donate <x>.')); same('the largest first', rows('refusal').map(t => t.children[2].textContent).join(), 'x,b.3');
  check('padding and its remedy', rows('refusal')[0].textContent.includes('62.5 %') && rows('refusal')[0].textContent.includes('Pad dimension 1'));
  check('a section of its own', [...document.querySelectorAll('#sections a')].some(a => a.textContent === 'Refused')); check('not the time of a run', document.querySelector('.tile').textContent.includes('if it fitted'));
  rows('refusal')[0].click(); same('an array is selected', state.buffer, 0); key('Escape');
  selectKernel(4); check('what was copied ahead: ' + $('details').textContent, $('details').textContent.includes('2.00 KiB to VMEM') && $('details').textContent.includes('beside the 2 kernels before'));
  selectKernel(3); check('and what HBM does for later kernels', $('details').textContent.includes('10.0 % of the time for later kernels')); near('HBM is as busy', documents[0].kernels[3].busy[2], 0.1);
  check('a long message is cut', (() => { const d = now(); d.refusal.message = 'E1001: ' + 'p, '.repeat(2000) + 'the end'; emit('doc'); const p = r.querySelector('p.mono').textContent; return p.length < 500 && p.endsWith('the end') && r.querySelector('pre').textContent.length > 6000; })());
  showDocument(1); check('the other one fits', $('refusal').hidden);
"""

NOTHING = "check('says so', document.body.textContent.includes('no program in this report'));"


def show(name, documents, script, folder, size="1400,1000"):
    arguments = []
    for i, (title, text) in enumerate(documents):
        file = folder / f"{name}.{i}.json"
        file.write_text(text if isinstance(text, str) else json.dumps(text))
        arguments.append(f"{title}={file}")
    page = folder / f"{name}.html"
    subprocess.run([TOOL, page, *arguments], check=True)
    text = page.read_text().replace("<head>", "<head>" + BEFORE, 1)
    page.write_text(text.replace("</body>", HARNESS.replace("%s", script, 1) + "</body>", 1))
    for attempt in range(2):  # a browser that does not come up on a busy machine is not the page's fault
        try:
            run = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={folder}/profile.{name}.{attempt}",
                                  f"--window-size={size}", "--virtual-time-budget=20000", "--dump-dom", page.as_uri()],
                                 capture_output=True, text=True, timeout=100, errors="replace")
        except subprocess.TimeoutExpired:
            continue
        found = re.search(r'<pre id="outcome">(.*?)</pre>', run.stdout, re.S)
        if found:
            return json.loads(html.unescape(found.group(1)))
    return ["the browser gave no outcome: " + run.stderr[-500:]]


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        one, second = document(), document(speed=2.0, drop=20)
        refused = document()
        refused["refusal"] = {"message": "E1000: out of memory.\n\nLargest program allocations in hbm:", "space": "hbm", "kernel": 3, "required_bytes": 20 << 30,
                              "limit_bytes": 16 << 30, "buffers": [0, 4], "remedies": ["Donate <x>."]}
        refused["prefetches"] = [{"kernel": 4, "first_kernel": 2, "space": "vmem", "bytes": 2048, "seconds": 1e-7}]
        refused["kernels"][3]["prefetch_cycles"] = refused["kernels"][3]["cycles"] * 0.1
        for name, documents, script in [
                ("one", [("first on v5e", one)], ONE), ("two", [("first", one), ('second "one"', second), ("broken", "{"), ("third", document(kernels=5, iterations=1))], TWO),
                ("big", [("", document(kernels=12000))], BIG), ("empty", [("", document(kernels=0, iterations=1))], EMPTY), ("nothing", [], NOTHING),
                ("refused", [("large", refused), ("small", one)], REFUSED)]:
            failures = show(name, documents, script, folder)
            print(f"{name}: {'good' if not failures else len(failures)}")
            for failure in failures:
                print("  " + failure)
            failed += bool(failures)
    return failed


if __name__ == "__main__":
    sys.exit(main())
