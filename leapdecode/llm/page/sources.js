function sources() {
  const trace = main_trace(),
    found = {};
  for (const step of trace.steps) {
    for (const node of step.nodes.slice(1)) {
      if (node.source === "target") continue;
      found[node.source] ||= [0, 0, 0];
      found[node.source][node.fate === "cut" ? 2 : 0]++;
    }
    for (const one of step.tokens)
      if (one.source !== "target") {
        found[one.source] ||= [0, 0, 0];
        found[one.source][1]++;
      }
  }
  const rows = Object.entries(found)
    .sort((a, b) => b[1][1] - a[1][1])
    .map(([name, [offered, hit, cut]]) => [
      name,
      offered,
      hit,
      `${((100 * hit) / Math.max(offered, 1)).toFixed(0)}%`,
      cut,
    ]);
  $("switches").replaceChildren(...switches(trace));
  $("brought").replaceChildren(
    rows.length
      ? table(["source", "evaluated", "accepted", "share", "cut"], rows)
      : made("p", "Nothing was guessed.", "soft"),
    made(
      "p",
      `Each accepted guess saved a forward: ` +
        `${rows.reduce((sum, row) => sum + row[2], 0)} of ${count(trace)} tokens.`,
      "soft",
    ),
  );
}
function switches(trace) {
  const own = Object.entries(trace.options || {}).filter(([, value]) => typeof value === "boolean");
  if (!given.served || !asked_last || !own.length) return [];
  const boxes = own.map(([name, value]) => {
    const label = made("label", name + " "),
      box = made("input");
    box.type = "checkbox";
    box.checked = value;
    box.name = name;
    label.append(box);
    return label;
  });
  const again = made("button", "Decode again with these");
  again.onclick = () =>
    run(Object.fromEntries(boxes.map((label) => [label.lastChild.name, label.lastChild.checked])));
  return [...boxes, again];
}
