function spent(trace) {
  const found = { rest: total(trace) };
  for (const step of trace.steps)
    for (const part in step.parts) {
      found[part] = (found[part] || 0) + step.parts[part];
      found.rest -= step.parts[part];
    }
  found.rest = Math.max(found.rest, 0);
  return found;
}
function time() {
  const most = Math.max(...traces.map(total)),
    wide = 640;
  const svg = drawn("svg", {
    viewBox: `0 0 ${wide} ${traces.length * 52 + 4}`,
    width: "100%",
    role: "img",
    "aria-label": "time by part, as in the table below",
  });
  traces.forEach((trace, number) => {
    let x = 0;
    const found = spent(trace);
    svg.append(
      drawn("text", { x: 0, y: number * 52 + 14 }, `${trace.method}: ${ms(total(trace))}`),
    );
    PARTS.forEach(([part], place) => {
      const width = (wide * (found[part] || 0)) / most;
      const bar = drawn("rect", {
        x,
        y: number * 52 + 20,
        width,
        height: 22,
        fill: `var(--c${place + 1})`,
        stroke: "var(--soft)",
      });
      bar.append(drawn("title", {}, `${part}: ${ms(found[part] || 0)}`));
      svg.append(bar);
      x += width;
    });
  });
  $("parts").replaceChildren(
    svg,
    table(
      ["part", ...traces.map((trace) => trace.method)],
      PARTS.map(([part, name]) => [
        name,
        ...traces.map((trace) => {
          const value = spent(trace)[part] || 0;
          return `${ms(value)} (${((100 * value) / Math.max(total(trace), 1e-9)).toFixed(0)}%)`;
        }),
      ]),
    ),
  );
  const key = made("div", undefined, "legend");
  PARTS.forEach(([, name], place) => {
    const mark = made("span", name, "tok");
    mark.style.background = `var(--c${place + 1})`;
    key.append(mark);
  });
  $("parts").firstChild.after(key);
  curve();
}
function curve() {
  const dots = traces.flatMap((trace, lane) =>
    trace.steps.slice(1).map((step) => [step.rows, step.parts.forward, lane]),
  );
  const costs = given.costs || [];
  if (!dots.length) {
    $("curve").replaceChildren(made("p", "one forward alone: nothing to compare", "soft"));
    return;
  }
  const right = Math.max(...dots.map((d) => d[0]), ...costs.map((c) => c[0])) * 1.05,
    top = Math.max(...dots.map((d) => d[1]), ...costs.map((c) => c[1])) * 1.1;
  const X = (v) => 44 + (v / right) * 580,
    Y = (v) => 210 - (v / top) * 190;
  const svg = drawn("svg", {
    viewBox: "0 0 640 240",
    width: "100%",
    role: "img",
    "aria-label": "milliseconds of a forward by its rows",
  });
  svg.append(drawn("path", { d: "M44,20 V210 H624", fill: "none", stroke: "var(--soft)" }));
  const last = { x: 624, y: 234, class: "note", "text-anchor": "end" };
  svg.append(
    drawn("text", { x: 0, y: 14, class: "note" }, `time of a forward, up to ${ms(top)}`),
    drawn("text", last, `rows of a forward, up to ${Math.round(right)}`),
  );
  if (costs.length > 1)
    svg.append(
      drawn("path", {
        d: "M" + costs.map(([r, t]) => `${X(r)},${Y(t)}`).join(" L"),
        fill: "none",
        stroke: "var(--key)",
        "stroke-width": 2,
      }),
    );
  for (const [rows, took, lane] of dots)
    svg.append(
      lane
        ? drawn("circle", {
            cx: X(rows),
            cy: Y(took),
            r: 4,
            fill: "var(--c2)",
            stroke: "var(--ink)",
          })
        : drawn("rect", {
            x: X(rows) - 3,
            y: Y(took) - 3,
            width: 6,
            height: 6,
            fill: "none",
            stroke: "var(--ink)",
          }),
    );
  $("curve").replaceChildren(
    svg,
    made(
      "p",
      "Squares: the first trace's forwards; circles: the second's." +
        (costs.length > 1 ? " Line: what this machine was measured to need." : ""),
      "soft",
    ),
  );
}
