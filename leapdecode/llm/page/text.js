function race(until) {
  cancelAnimationFrame(playing * (until === undefined));
  $("lanes").replaceChildren(
    ...traces.map((trace) => {
      const lane = made("div"),
        text = made("div", undefined, "text");
      const done = trace.steps.filter((step) => until === undefined || step.at <= until);
      const tokens = done.reduce((sum, step) => sum + step.tokens.length, 0);
      lane.append(made("h2", trace.method === "autoregressive" ? "Plain decoding" : trace.method));
      lane.append(
        made(
          "p",
          `${many(tokens, "token")}, ${many(done.length, "forward")}, ` +
            ms(done.length ? done[done.length - 1].at : 0),
          "soft",
        ),
      );
      for (const step of done) for (const one of step.tokens) text.append(token(one));
      lane.append(text);
      return lane;
    }),
  );
  $("clock").textContent = until === undefined ? "" : ms(until);
}
$("play").onclick = () => {
  const end = Math.max(...traces.map(total)),
    began = performance.now(),
    pace = Number($("pace").value);
  const tick = () => {
    const now = (performance.now() - began) * pace;
    race(Math.min(now, end));
    if (now < end && view === "race") playing = requestAnimationFrame(tick);
  };
  cancelAnimationFrame(playing);
  tick();
};
function text() {
  const lines = (step) => step.tokens.some((one) => one.text.includes("\n"));
  $("boxes").replaceChildren(
    ...main_trace().steps.flatMap((step, number) => {
      const box = made("button", undefined, number === at ? "box on" : "box");
      box.setAttribute(
        "aria-label",
        `forward ${number + 1}: ${step.tokens.map((one) => shown(one.text)).join("")}`,
      );
      for (const one of step.tokens) {
        const part = token(one);
        part.textContent = shown(one.text).replace(/\n/g, "\u23ce");
        box.append(part);
      }
      box.title = step.tokens.map((one) => `${bare(one.text)}  ${one.source}`).join("\n");
      box.onclick = () => {
        at = number;
        text();
        $("boxes").querySelectorAll(".box")[number].focus();
        history.replaceState(null, "", `#text=${at}`);
      };
      return lines(step) ? [box, made("br")] : [box];
    }),
  );
  const step = main_trace().steps[at];
  if (!step) return;
  const path = step.nodes.filter((node) => node.fate === "accepted");
  const rows = step.tokens.map((one, number) => {
    const node = path[number + 1],
      before = path[number];
    return [
      bare(one.text),
      one.source,
      node ? node.match : "",
      number + 1,
      node && node.probability !== null ? node.probability.toFixed(3) : "",
      before && before.margin !== null ? before.margin.toFixed(2) : "",
    ];
  });
  const before = at ? main_trace().steps[at - 1].at : 0;
  $("step").replaceChildren(
    made(
      "h2",
      `Forward ${at + 1}: ${many(step.tokens.length, "token")} of ${many(step.rows, "row")}, ` +
        ms(step.at - before),
    ),
    table(["token", "guessed by", "match length", "depth", "probability", "margin"], rows),
  );
}
function table(head, rows) {
  const made_table = made("table"),
    top = made("tr"),
    wrap = made("div");
  for (const name of head) {
    const cell = made("th", name);
    cell.scope = "col";
    top.append(cell);
  }
  made_table.append(top);
  for (const row of rows) {
    const line = made("tr");
    for (const cell of row) line.append(made("td", cell));
    made_table.append(line);
  }
  wrap.style.overflowX = "auto";
  wrap.tabIndex = 0;
  wrap.append(made_table);
  return wrap;
}
