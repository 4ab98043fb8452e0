// Which text was served when: a lane per text, and one per model where a schedule tells of models.
const KINDS = {
  prefill: ["var(--paper)", 18, "reads missing text"],
  verify: ["var(--c1)", 18, "the model's forward"],
  draft: ["var(--c2)", 8, "the draft's forward"],
  sample: ["var(--ink)", 18, "choosing tokens"],
};
function spans_of_traces() {
  const first = Math.min(...batch.map((trace) => trace.clock));
  return batch.flatMap((trace, number) =>
    trace.steps.map((step, place) => ({
      lane: `text ${number + 1}`,
      kind: "verify",
      began: (place ? trace.steps[place - 1].clock : trace.clock) - first,
      ended: step.clock - first,
      label: String(step.tokens.length),
      note: `forward ${place + 1}: ${step.tokens.map((one) => shown(one.text)).join("")}`,
    })),
  );
}
function spans_of_schedule() {
  return given.schedule.flatMap(([model, kind, began, ended, texts]) => {
    const note = `${KINDS[kind][2]}: ${texts.length > 1 ? "texts" : "text"} ${texts.join(", ")}`;
    return [model, ...texts.map((text) => `text ${text}`)].map((lane) => ({
      lane,
      kind,
      began,
      ended,
      label: "",
      note,
    }));
  });
}
function draw_batch() {
  const spans = given.schedule ? spans_of_schedule() : spans_of_traces();
  if (!spans.length) {
    $("gantt").replaceChildren(made("p", "Nothing was decoded yet.", "soft"));
    return;
  }
  const met = [...new Set(spans.map((span) => span.lane))];
  const models = ["target", "draft"].filter((name) => met.includes(name));
  const lanes = [...models, ...met.filter((name) => !models.includes(name))];
  const end = Math.max(...spans.map((span) => span.ended));
  const usual = spans.reduce((sum, span) => sum + span.ended - span.began, 0) / spans.length;
  const scale = Math.min(Math.max(16 / usual, 560 / end), 20000 / end);
  const svg = drawn("svg", {
    width: 96 + end * scale,
    height: lanes.length * 26 + 30,
    role: "img",
    "aria-label": `${lanes.length} lanes over ${ms(end)}`,
  });
  lanes.forEach((name, lane) => {
    svg.append(drawn("text", { x: 4, y: lane * 26 + 19 }, name));
    svg.append(
      drawn("path", {
        d: `M80,${lane * 26 + 26} H${96 + end * scale}`,
        stroke: "var(--faint)",
      }),
    );
  });
  for (const span of spans) {
    const [fill, height] = KINDS[span.kind];
    const width = Math.max((span.ended - span.began) * scale, 1);
    const bar = drawn("g", {});
    bar.append(
      drawn("rect", {
        x: 84 + span.began * scale,
        y: lanes.indexOf(span.lane) * 26 + 23 - height,
        width,
        height,
        fill,
        stroke: "var(--soft)",
        "stroke-width": 0.7,
      }),
      drawn("title", {}, `${span.note}\n${ms(span.ended - span.began)}`),
    );
    if (span.label && width > 10) {
      const y = lanes.indexOf(span.lane) * 26 + 18;
      bar.append(drawn("text", { x: 86 + span.began * scale, y, class: "note" }, span.label));
    }
    svg.append(bar);
  }
  const y = lanes.length * 26 + 20;
  svg.append(drawn("text", { x: 84, y, class: "note" }, "0"));
  svg.append(
    drawn("text", { x: 84 + end * scale, y, "text-anchor": "end", class: "note" }, ms(end)),
  );
  $("gantt").replaceChildren(svg);
  $("kinds").replaceChildren(...kinds_of(spans));
}
function kinds_of(spans) {
  const met = Object.keys(KINDS).filter((kind) => spans.some((span) => span.kind === kind));
  const marks = met.map((kind) => {
    const [fill, height, name] = KINDS[kind];
    const mark = made("span", " " + name);
    const svg = drawn("svg", { width: 22, height: 18, "aria-hidden": true });
    const place = { x: 1, y: 18 - height, width: 20, height: height - 1 };
    svg.append(drawn("rect", { ...place, fill, stroke: "var(--soft)" }));
    mark.prepend(svg);
    return mark;
  });
  if (!given.schedule) marks.push(made("span", "A number: tokens that the forward brought."));
  return marks;
}
