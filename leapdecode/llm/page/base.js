"use strict";
const $ = (id) => document.getElementById(id);
const made = (name, text, kind) => {
  const e = document.createElement(name);
  if (text !== undefined) e.textContent = text;
  if (kind) e.className = kind;
  return e;
};
const drawn = (name, has, text) => {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const k in has) e.setAttribute(k, has[k]);
  if (text !== undefined) e.textContent = text;
  return e;
};
const given = JSON.parse($("data").textContent);
const VIEWS = [
  ["race", "Race"],
  ["text", "Text"],
  ["tree", "Tree of a forward"],
  ["time", "Time"],
  ["sources", "Sources"],
  ["batch", "Batch"],
  ["talk", "Chat"],
  ["share", "Share"],
];
const PARTS = [
  ["forward", "model's forwards"],
  ["draft", "draft model"],
  ["propose", "guessing"],
  ["verify", "choosing tokens"],
  ["commit", "keeping the cache"],
  ["rest", "engine, detokenizing, waiting"],
];
const LABELS = {
  target: "target: the model itself",
  pair: "pair (recycling)",
  token: "token (recycling)",
};
let traces = given.traces,
  batch = given.traces.slice(-1),
  at = 0,
  view = "race",
  names = [],
  playing = 0,
  talk = [],
  asked_last = null;
const main_trace = () => traces[traces.length - 1];
const shown = (text) =>
  text.replace(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069]/g,
    (c) => "\\u" + c.codePointAt(0).toString(16).padStart(4, "0"),
  );
const bare = (text) => shown(text).replace(/\n/g, "\u23ce").replace(/ /g, "\u00b7");
const ms = (value) =>
  value >= 1000 ? (value / 1000).toFixed(2) + " s" : value.toFixed(value < 10 ? 1 : 0) + " ms";
const kind = (source) => "s" + (source === "target" ? 0 : 1 + (names.indexOf(source) % 7));
const total = (trace) => (trace.steps.length ? trace.steps[trace.steps.length - 1].at : 0);
const count = (trace) => trace.steps.reduce((sum, step) => sum + step.tokens.length, 0);
const many = (number, name) => `${number} ${name}${number === 1 ? "" : "s"}`;
const token = (one) => {
  const e = made("span", shown(one.text), "tok " + kind(one.source));
  return e;
};

function offered(id) {
  if (given.schedule) return id === "batch";
  if (id === "talk" || id === "batch") return given.served;
  return true;
}
function tabs() {
  $("tabs").replaceChildren(
    ...VIEWS.filter(([id]) => offered(id)).map(([id, name]) => {
      const tab = made("button", name);
      tab.id = "tab-" + id;
      tab.setAttribute("role", "tab");
      tab.setAttribute("aria-controls", id);
      tab.onclick = () => open_view(id);
      return tab;
    }),
  );
  $("tabs").onkeydown = (event) => {
    const all = [...$("tabs").children],
      here = all.indexOf(document.activeElement);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step && here >= 0) {
      const to = all[(here + step + all.length) % all.length];
      to.focus();
      to.click();
      event.preventDefault();
    }
  };
}
function open_view(id) {
  view = id;
  for (const [other] of VIEWS) {
    $(other).hidden = other !== id;
    const tab = $("tab-" + other);
    if (tab) {
      tab.setAttribute("aria-selected", other === id);
      tab.tabIndex = other === id ? 0 : -1;
    }
  }
  history.replaceState(null, "", `#${id}=${at}`);
  $("state").textContent = "";
  $("legend").hidden = !["race", "text", "tree", "sources"].includes(id);
  draw();
}
function load(found) {
  traces = found;
  at = Math.min(at, Math.max(main_trace().steps.length - 1, 0));
  names = [
    ...new Set(
      traces.flatMap((trace) =>
        trace.steps.flatMap((step) => [...step.tokens, ...step.nodes].map((one) => one.source)),
      ),
    ),
  ]
    .filter((name) => name !== "target" && name !== "text")
    .sort();
  $("views").hidden = false;
  $("legend").replaceChildren(
    ...["target", ...names].map((name) => made("span", LABELS[name] || name, "tok " + kind(name))),
  );
  const trace = main_trace(),
    forwards = trace.steps.length;
  $("facts").textContent =
    `${trace.model}, ${trace.method}: ${count(trace)} tokens in ${forwards} forwards, ` +
    `${(count(trace) / Math.max(forwards, 1)).toFixed(2)} tokens per forward, ${ms(total(trace))}` +
    (traces.length > 1
      ? `; plain decoding ${ms(total(traces[0]))}: ` +
        `${(total(traces[0]) / total(trace)).toFixed(2)} times as long`
      : "") +
    (trace.exact ? ". Exact decoding." : ".");
  $("scrub").max = Math.max(forwards - 1, 0);
  for (const name of ["play", "json", "png", "link"]) $(name).disabled = false;
  draw();
}
function draw() {
  if (!traces.length && !given.schedule) return;
  const views = { race, text, tree: draw_tree, time, sources, batch: draw_batch };
  (views[view] || (() => {}))();
}
