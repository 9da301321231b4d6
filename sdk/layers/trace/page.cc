#include "sdk/layers/trace/page.h"

namespace backplane::layers {
namespace {

// Lanes: the calls of each thread, nested calls below each other, then the executions of each device and the copies.
// They are drawn on a canvas; events narrower than a pixel are merged, so that a million events can be shown.
constexpr char kPage[] = R"page(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>PJRT trace</title><style>
:root{--ink:#1c2330;--soft:#68728a;--line:#d9dee8;--ground:#fff;--band:#f4f6fa}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9f0;--soft:#97a1b8;--line:#333b4d;--ground:#151a24;--band:#1c2330}}
body{margin:0;font:13px system-ui,sans-serif;color:var(--ink);background:var(--ground)}
header{padding:10px 14px;border-bottom:1px solid var(--line)}h1{font-size:15px;margin:0 0 4px}p{margin:0;color:var(--soft)}
canvas{display:block;width:100%;cursor:grab}#tip{position:fixed;pointer-events:none;display:none;background:var(--ground);
border:1px solid var(--line);padding:6px 8px;box-shadow:0 2px 8px #0003;white-space:pre;z-index:2}
table{border-collapse:collapse;margin:14px}th,td{padding:3px 12px;text-align:right;border-bottom:1px solid var(--line)}
th{cursor:pointer;color:var(--soft);font-weight:600}td:first-child,th:first-child{text-align:left}input{font:inherit}
.tables{display:flex;flex-wrap:wrap;align-items:flex-start}</style></head><body>
<header><h1 id="title"></h1><p id="facts"></p>
<p>Drag to move, wheel to zoom, double click for all. Show only: <input id="filter" placeholder="part of a name"></p></header>
<canvas id="c"></canvas><div id="tip"></div><div class="tables"><table id="functions"></table><table id="programs"></table></div>
<script>
"use strict";
const D=/*DATA*/;
const T=0,K=1,F=2,S=3,L=4,B=5,N=6,C=7,V=8,E=9,kinds=["call","execution","copy to device","copy to host","copy on device"];
const label=e=>e[K]==0?D.functions[e[F]]:e[K]==1&&e[N]?D.names[e[N]]:kinds[e[K]];
const ns=t=>t<1e3?t+" ns":t<1e6?(t/1e3).toFixed(1)+" µs":t<1e9?(t/1e6).toFixed(2)+" ms":(t/1e9).toFixed(3)+" s";
const size=b=>b<1024?b+" B":b<1048576?(b/1024).toFixed(1)+" KiB":(b/1048576).toFixed(1)+" MiB";
const hue=s=>{let h=0;for(const c of s)h=(h*31+c.charCodeAt(0))%360;return h};
// Lanes: a key, and rows in which events do not overlap (calls of a thread nest, spans of a device may overlap freely).
const lanes=new Map();
const laneOf=e=>e[K]==0?"0|"+D.threads[e[T]]:e[K]==1?"1|device "+(e[V]<0?"?":e[V]):"2|"+kinds[e[K]];
for(const e of D.events){const k=laneOf(e);if(!lanes.has(k))lanes.set(k,[]);lanes.get(k).push(e)}
const rows=[];
for(const k of [...lanes.keys()].sort()){const list=lanes.get(k).sort((a,b)=>a[S]-b[S]||b[L]-a[L]),ends=[];const own=[];
 for(const e of list){let r=ends.findIndex(t=>t<=e[S]);if(r<0)r=ends.length<12?ends.length:11;ends[r]=Math.max(ends[r]||0,e[S]+e[L]);
 (own[r]=own[r]||[]).push(e)}
 own.forEach((ev,i)=>rows.push({name:i?"":k.slice(2),events:ev,first:!i}))}
let lo=Infinity,hi=0;for(const e of D.events){lo=Math.min(lo,e[S]);hi=Math.max(hi,e[S]+e[L])}
if(lo>hi){lo=0;hi=1}
let from=lo,to=Math.max(hi,lo+1),needle="";
const c=document.getElementById("c"),g=c.getContext("2d"),tip=document.getElementById("tip"),H=18,LEFT=170,TOP=22;
const css=n=>getComputedStyle(document.documentElement).getPropertyValue(n);
function draw(){const w=c.clientWidth,h=TOP+rows.length*H+6,q=devicePixelRatio||1;c.style.height=h+"px";c.width=w*q;c.height=h*q;
 g.setTransform(q,0,0,q,0,0);g.font="11px system-ui";g.textBaseline="middle";const span=to-from,x=t=>LEFT+(t-from)/span*(w-LEFT);
 g.fillStyle=css("--soft");let step=Math.pow(10,Math.floor(Math.log10(span/4)));while(span/step>8)step*=2;
 for(let t=Math.ceil(from/step)*step;t<to;t+=step){g.fillRect(x(t),TOP-5,1,5);g.fillText(ns(Math.round(t)),x(t)+3,TOP/2)}
 rows.forEach((r,i)=>{const y=TOP+i*H;if(r.first){g.fillStyle=css("--line");g.fillRect(0,y,w,1);g.fillStyle=css("--ink");g.fillText(r.name,6,y+H/2,LEFT-12)}
  g.save();g.beginPath();g.rect(LEFT,y,w-LEFT,H);g.clip();let last=-1;
  for(const e of r.events){if(e[S]+e[L]<from)continue;if(e[S]>to)break;const a=x(e[S]),b=x(e[S]+e[L]);
   if(b-a<1&&Math.floor(a)==last)continue;last=b-a<1?Math.floor(a):-1;const n=label(e),on=!needle||n.toLowerCase().includes(needle);
   g.fillStyle=!on?"#8884":e[E]?"#d33":`hsl(${hue(n)} 55% 62%)`;g.fillRect(a,y+2,Math.max(1,b-a),H-3);
   const l=Math.max(a,LEFT)+3;if(b-a>30&&on&&g.measureText(n).width<Math.min(b,w)-l){g.fillStyle="#111";g.fillText(n,l,y+H/2+1)}}
  g.restore()})}
function at(ev){const y=Math.floor((ev.offsetY-TOP)/H),r=rows[y];if(!r||ev.offsetX<LEFT)return null;
 const w=c.clientWidth-LEFT,t=from+(ev.offsetX-LEFT)/w*(to-from),near=(to-from)/w*2;let best=null;
 for(const e of r.events){if(e[S]>t+near)break;if(e[S]+e[L]>=t-near&&(!best||e[S]>=best[S]))best=e}return best}
let drag=null;
c.onmousedown=e=>drag={x:e.offsetX,from,to};window.onmouseup=()=>drag=null;
c.onmousemove=e=>{if(drag){const d=(drag.x-e.offsetX)/(c.clientWidth-LEFT)*(drag.to-drag.from);from=drag.from+d;to=drag.to+d;draw()}
 const v=at(e);if(!v){tip.style.display="none";return}
 tip.textContent=[label(v),kinds[v[K]]+" · "+ns(v[L])+" · at "+ns(v[S]),v[N]?"program "+D.names[v[N]]:"",v[B]?size(v[B]):"",v[C]?v[C]+" arguments":"",
  v[V]>=0?"device "+v[V]:"",v[K]?"by "+D.functions[v[F]]:"",v[E]?D.errors[v[E]]:""].filter(Boolean).join("\n");
 tip.style.display="block";tip.style.left=Math.min(e.clientX+12,innerWidth-240)+"px";tip.style.top=e.clientY+14+"px"};
c.onmouseleave=()=>tip.style.display="none";
c.onwheel=e=>{e.preventDefault();const t=from+(e.offsetX-LEFT)/(c.clientWidth-LEFT)*(to-from),k=Math.exp(e.deltaY/400);
 from=t-(t-from)*k;to=Math.max(t+(to-t)*k,from+10);draw()};
c.ondblclick=()=>{from=lo;to=Math.max(hi,lo+1);draw()};
document.getElementById("filter").oninput=e=>{needle=e.target.value.toLowerCase();draw()};
window.onresize=draw;
document.getElementById("title").textContent=D.title;
document.getElementById("facts").textContent=`process ${D.pid} · ${D.events.length} events · ${D.threads.length} threads · ${ns(hi-lo)}`+
 (D.dropped?` · ${D.dropped} more were dropped`:"");
function table(id,heads,list){const t=document.getElementById(id);let by=1;const show=()=>{t.replaceChildren();const h=t.insertRow();
 heads.forEach((n,i)=>{const x=document.createElement("th");x.textContent=n;x.onclick=()=>{by=i;show()};h.append(x)});
 list.sort((a,b)=>typeof a[by]=="string"?a[by].localeCompare(b[by]):b[by]-a[by]);
 for(const r of list){const x=t.insertRow();r.forEach((v,i)=>x.insertCell().textContent=i==0||heads[i]=="calls"||heads[i]=="runs"||heads[i]=="errors"?v:
  heads[i]=="bytes"?size(v):ns(Math.round(v)))}};if(list.length)show()}
function sum(pick,key){const m=new Map();for(const e of D.events)if(pick(e)){const k=key(e),r=m.get(k)||[k,0,0,0,0,0,0];
 r[1]+=e[L];r[2]++;r[4]=Math.max(r[4],e[L]);r[5]+=e[B];r[6]+=e[E]?1:0;m.set(k,r)}for(const r of m.values())r[3]=r[1]/r[2];return[...m.values()]}
table("functions",["function","time","calls","mean","longest","bytes","errors"],sum(e=>e[K]==0,label));
table("programs",["asynchronous","time","runs","mean","longest","bytes","errors"],sum(e=>e[K]!=0,label));
draw();
</script></body></html>
)page";

}  // namespace

absl::string_view TracePage() { return absl::string_view(kPage, sizeof(kPage) - 1); }

}  // namespace backplane::layers
