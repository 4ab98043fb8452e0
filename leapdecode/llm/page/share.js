function save(blob, name) {
  const link = made("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
$("json").onclick = () =>
  save(new Blob([JSON.stringify(traces)], { type: "application/json" }), "leapdecode-trace.json");
$("link").onclick = async () => {
  const link = location.href.split("#")[0] + `#tree=${at}`;
  try {
    await navigator.clipboard.writeText(link);
    $("state").textContent = "The link is in the clipboard.";
  } catch {
    $("state").textContent = link;
  }
};
$("png").onclick = () => {
  draw_tree();
  const svg = $("drawing").firstChild,
    copy = svg.cloneNode(true),
    style = getComputedStyle(document.documentElement);
  let text = new XMLSerializer()
    .serializeToString(copy)
    .replace(/var\((--\w+)\)/g, (_, name) => style.getPropertyValue(name).trim());
  text = text.replace("<svg", `<svg style="font: 13px monospace"`);
  const picture = new Image();
  picture.onload = () => {
    const canvas = made("canvas");
    canvas.width = 2 * svg.width.baseVal.value;
    canvas.height = 2 * svg.height.baseVal.value;
    const pen = canvas.getContext("2d");
    pen.fillStyle = style.getPropertyValue("--paper");
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.scale(2, 2);
    pen.drawImage(picture, 0, 0);
    canvas.toBlob((blob) => save(blob, `leapdecode-forward-${at + 1}.png`));
  };
  picture.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
};
