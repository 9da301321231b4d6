// The HTML page: the report's JSON and a small script that shows it. It has no external references, so it can be
// mailed.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "conformance/kit/report.h"

namespace backplane::conformance {
namespace {

constexpr char kHead[] = R"html(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Conformance</title>
<style>
:root { --bg:#fff; --fg:#1b1f24; --soft:#6b7280; --line:#e5e7eb; --pass:#15803d; --fail:#b91c1c; --advice:#b45309; --other:#4b5563; --expected:#0e7490; }
@media (prefers-color-scheme: dark) { :root { --bg:#0f1216; --fg:#e6e8eb; --soft:#9aa3ae; --line:#2a3038; --pass:#4ade80; --fail:#f87171; --advice:#fbbf24; --other:#9ca3af; --expected:#22d3ee; } }
body { font:15px/1.45 system-ui,sans-serif; margin:0 auto; max-width:1100px; padding:24px; background:var(--bg); color:var(--fg); }
h1 { font-size:22px; margin:0 0 4px } .soft { color:var(--soft) }
.badges { display:flex; flex-wrap:wrap; gap:8px; margin:16px 0 }
.badge { display:inline-flex; border-radius:4px; overflow:hidden; font-size:13px } .badge b,.badge i { padding:3px 9px; font-style:normal; font-weight:600; color:#fff }
.badge b { background:#374151 } .badge i.met { background:#15803d } .badge i.not { background:#b91c1c } .badge i.part { background:#6b7280 }
.bar { display:flex; flex-wrap:wrap; gap:8px; margin:12px 0; position:sticky; top:0; background:var(--bg); padding:8px 0; border-bottom:1px solid var(--line) }
button,input,select { font:inherit; color:inherit; background:transparent; border:1px solid var(--line); border-radius:6px; padding:4px 10px }
button[aria-pressed=true] { border-color:currentColor; font-weight:600 } input { flex:1; min-width:160px } select option { color:#000 }
table { border-collapse:collapse; width:100% } td { border-bottom:1px solid var(--line); padding:5px 8px; vertical-align:top }
td.r { white-space:nowrap; font-weight:600 } td.t { text-align:right; white-space:nowrap; color:var(--soft) }
code { font-size:13px; word-break:break-all } pre { margin:4px 0 0; font-size:12.5px; white-space:pre-wrap; word-break:break-word; color:var(--soft) }
.pass { color:var(--pass) } .fail { color:var(--fail) } .advice { color:var(--advice) } .unsupported,.skip { color:var(--other) } .expected { color:var(--expected) }
.change { font-size:12.5px; color:var(--advice) }
</style></head><body>
<h1 id="title"></h1><div class="soft" id="facts"></div><div class="badges" id="badges"></div>
<div class="bar"><span id="kinds" style="display:contents"></span><select id="suite" aria-label="suite"></select><input id="find" placeholder="find in names and reasons" aria-label="find"></div>
<table><tbody id="rows"></tbody></table>
<script type="application/json" id="data">)html";

constexpr char kTail[] = R"html(</script>
<script>
'use strict';
const all = JSON.parse(document.getElementById('data').textContent), now = all.now, before = all.before;
const el = (tag, cls, text) => { const e = document.createElement(tag); if (cls) e.className = cls; if (text !== undefined) e.textContent = text; return e; };
const was = new Map(before ? before.checks.map(c => [c.id, c.result]) : []);
const kindOf = c => c.unexpected_pass ? 'fail' : c.result === 'pass' ? 'pass' : c.expected ? 'expected' : c.result === 'fail' && c.advice && !now.strict ? 'advice' : c.result;
const changeOf = c => !before ? '' : !was.has(c.id) ? 'new' : was.get(c.id) !== c.result ? 'was ' + was.get(c.id) : '';
document.title = 'Conformance of ' + now.plugin;
document.getElementById('title').textContent = now.plugin + ': ' + (now.good ? 'conformant' : 'not conformant');
const f = now.facts;
document.getElementById('facts').textContent = (f ? `PJRT C API ${f.api}, platform ${f.platform}, ${f.devices} devices, ${f.slots - f.null_slots.length} functions, extensions: ${f.extensions.join(', ') || 'none'}. ` : '') +
  `${now.checks.length} checks in ${now.seconds.toFixed(1)} s.` + (now.profile ? ` Profile ${now.profile}.` : '') + (before ? ' Compared with an earlier run.' : '');
for (const l of now.levels) {
  const b = el('span', 'badge'); b.title = l.meaning + (l.missing.length ? '\nmissing: ' + l.missing.join(', ') : '');
  b.append(el('b', '', l.name), el('i', l.met ? 'met' : l.missing.length ? 'not' : 'part', l.met ? 'met' : `${l.passed} of ${l.wanted}`));
  document.getElementById('badges').append(b);
}
const kinds = ['fail', 'advice', 'expected', 'unsupported', 'skip', 'pass'], shown = new Set();
for (const k of kinds.concat(before ? ['changed'] : [])) {
  const n = now.checks.filter(c => k === 'changed' ? changeOf(c) : kindOf(c) === k).length;
  if (!n) continue;
  const b = el('button', k, `${k} ${n}`); b.setAttribute('aria-pressed', 'false');
  b.onclick = () => { shown.has(k) ? shown.delete(k) : shown.add(k); b.setAttribute('aria-pressed', String(shown.has(k))); draw(); };
  document.getElementById('kinds').append(b);
}
const suite = document.getElementById('suite'), find = document.getElementById('find');
suite.append(new Option('all suites', ''));
for (const s of new Set(now.checks.map(c => c.id.split('.')[0]))) suite.append(new Option(s, s));
suite.onchange = find.oninput = draw;
// Failures come first; otherwise keeps the order of the suites.
const order = now.checks.slice().sort((a, b) => kinds.indexOf(kindOf(a)) - kinds.indexOf(kindOf(b)));
function draw() {
  const rows = document.getElementById('rows'), words = find.value.toLowerCase(); rows.textContent = '';
  for (const c of order) {
    const k = kindOf(c), change = changeOf(c);
    if (shown.size && !shown.has(k) && !(change && shown.has('changed'))) continue;
    if (suite.value && c.id.split('.')[0] !== suite.value) continue;
    if (words && !(c.id + ' ' + c.meaning + ' ' + c.detail).toLowerCase().includes(words)) continue;
    const tr = el('tr'), what = el('td');
    what.append(el('code', '', c.id), el('div', 'soft', c.meaning));
    if (change) what.append(el('div', 'change', change));
    if (c.expected) what.append(el('div', 'expected', c.expected));
    if (c.detail) what.append(el('pre', '', c.detail));
    tr.append(el('td', 'r ' + k, k), what, el('td', 't', c.seconds.toFixed(2) + ' s')); rows.append(tr);
  }
}
draw();
</script></body></html>
)html";

}  // namespace

std::string PrintHtml(const Report& report, const Report* baseline) {
  const std::string data = absl::StrCat("{\"now\": ", FormatJson(report),
                                        ", \"before\": ", baseline != nullptr ? FormatJson(*baseline) : "null", "}");
  // Escapes the data so that it cannot end its element.
  return absl::StrCat(kHead, absl::StrReplaceAll(data, {{"<", "\\u003c"}}), kTail);
}

}  // namespace backplane::conformance
