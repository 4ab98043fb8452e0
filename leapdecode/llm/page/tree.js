function draw_tree() {
  const step = main_trace().steps[at];
  if (!step) return;
  $("scrub").value = at;
  $("scrub").setAttribute("aria-valuetext", `forward ${at + 1}`);
  $("which").textContent =
    `${at + 1} of ${main_trace().steps.length}: ` +
    `${step.nodes.length - 1} guesses, ${many(step.tokens.length, "token")}`;
  const nodes = step.nodes.map((node) => ({ ...node, below: [] }));
  nodes.forEach((node, number) => {
    if (number) nodes[node.parent].below.push(node);
  });
  let leaves = 0;
  const place = (node, depth) => {
    node.x = depth;
    node.below.forEach((child) => place(child, depth + 1));
    node.y = node.below.length ? node.below[0].y : leaves++;
  };
  if (nodes.length) place(nodes[0], 0);
  const wide = 118,
    high = 38,
    svg = drawn("svg", {
      width: (Math.max(...nodes.map((n) => n.x)) + 1) * wide + 20,
      height: Math.max(leaves, 1) * high + 16,
    });
  const xy = (node) => [node.x * wide + 10, node.y * high + 22];
  nodes.forEach((node, number) => {
    if (!number) return;
    const [x, y] = xy(node),
      [px, py] = xy(nodes[node.parent]),
      good = node.fate === "accepted";
    svg.append(
      drawn("path", {
        d: `M${px + 92},${py - 4} C${px + 108},${py - 4} ${x - 18},${y - 4} ${x - 4},${y - 4}`,
        fill: "none",
        stroke: good ? "var(--key)" : "var(--faint)",
        "stroke-width": good ? 2.5 : 1,
      }),
    );
  });
  const reached = reach_of(nodes);
  nodes.forEach((node, number) => svg.append(box_of(node, number, ...xy(node), reached[number])));
  $("drawing").replaceChildren(svg);
  $("drawing").setAttribute(
    "aria-label",
    `forward ${at + 1}: ${nodes
      .slice(1)
      .map((n) => `${shown(n.text)} by ${n.source} ${n.fate}`)
      .slice(0, 30)
      .join("; ")}`,
  );
}
// What each node was expected to bring: the product of the chances up to the root, where all of them
// were told.
function reach_of(nodes) {
  const reached = [1];
  nodes.slice(1).forEach((node, number) => {
    const above = reached[node.parent];
    reached[number + 1] = node.chance === null || above === null ? null : above * node.chance;
  });
  return reached;
}
// The price of one more row in this forward: its milliseconds on this machine, in tokens of the
// text's own pace.
function price_of(step) {
  const costs = given.costs || [];
  const above = costs.findIndex(([rows]) => rows > step.rows);
  if (above < 1 || !total(main_trace())) return null;
  const [[r0, t0], [r1, t1]] = costs.slice(above - 1, above + 1);
  return (((t1 - t0) / (r1 - r0)) * count(main_trace())) / total(main_trace());
}
function note_of(node, number, reached) {
  if (!number) return "text";
  const price = node.fate === "cut" ? price_of(main_trace().steps[at]) : null;
  if (node.fate === "cut" && reached !== null)
    return `gain ${reached.toFixed(2)}` + (price === null ? "" : ` of ${price.toFixed(2)}`);
  const known = node.probability === null ? "" : " " + node.probability.toFixed(2);
  return node.source.slice(0, 9) + known;
}
function told_of(node, reached) {
  const lines = [`${bare(node.text)}  ${node.source}  ${node.fate}`];
  if (node.match) lines.push(`match of ${node.match}`);
  if (node.chance !== null) lines.push(`thought right with ${node.chance}`);
  if (reached !== null && node.parent >= 0)
    lines.push(`expected to bring ${reached.toFixed(3)} tokens`);
  if (node.margin !== null) lines.push(`margin behind it ${node.margin}`);
  return lines.join("\n");
}
function box_of(node, number, x, y, reached) {
  const good = node.fate === "accepted";
  const cut = node.fate === "cut";
  const look = number === 0 ? 0 : 1 + (names.indexOf(node.source) % 7);
  const label = bare(node.text);
  const short = label.length > 9 ? label.slice(0, 8) + "\u2026" : label;
  const box = drawn("g", { opacity: node.fate === "rejected" ? 0.62 : 1 });
  box.append(
    drawn("rect", {
      x: x - 4,
      y: y - 18,
      width: 96,
      height: 32,
      rx: 4,
      fill: cut ? "none" : `var(--c${look})`,
      stroke: good ? "var(--key)" : "var(--faint)",
      "stroke-dasharray": cut ? "3 3" : "none",
      "stroke-width": good ? 2 : 1,
    }),
    drawn("text", { x, y: y - 5, "font-weight": good ? 700 : 400 }, short),
    drawn("text", { x, y: y + 9, class: "note" }, note_of(node, number, reached)),
    drawn("title", {}, told_of(node, reached)),
  );
  return box;
}
const move = (by) => {
  at = Math.min(Math.max(at + by, 0), main_trace().steps.length - 1);
  history.replaceState(null, "", `#tree=${at}`);
  draw_tree();
};
$("back").onclick = () => move(-1);
$("next").onclick = () => move(1);
$("scrub").oninput = () => {
  at = Number($("scrub").value);
  move(0);
};
$("tree").onkeydown = (event) => {
  const step = { ArrowLeft: -1, ArrowRight: 1, Home: -1e9, End: 1e9 }[event.key];
  if (step && event.target !== $("scrub")) {
    move(step);
    event.preventDefault();
  }
};
