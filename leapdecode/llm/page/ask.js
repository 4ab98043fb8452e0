async function call(path, body) {
  const headers = { "Content-Type": "application/json" };
  if ($("key").value) headers.Authorization = "Bearer " + $("key").value;
  const answer = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error((await answer.json()).error.message);
  return answer;
}
const number_of = (id) => {
  const value = Number($(id).value);
  return Number.isFinite(value) ? value : 0;
};
const chosen = () => ({
  max_tokens: Math.max(1, number_of("most")),
  temperature: number_of("temperature"),
  seed: Math.trunc(number_of("seed")),
});
const texts_asked = () => Math.min(Math.max(1, Math.trunc(number_of("texts"))), 8);
async function run(options) {
  const [path, own] = asked_last,
    method = $("method").value,
    n = texts_asked(),
    found = [];
  $("run").disabled = true;
  $("state").className = "soft";
  try {
    for (const [name, more] of [
      ["autoregressive", {}],
      [method, options ? { options } : {}],
    ]) {
      $("state").textContent = `decoding by ${name} ...`;
      const answer = await (
        await call(path, { ...own, ...chosen(), n, method: name, ...more, explain: true })
      ).json();
      found.push(answer.explain[0]);
      batch = answer.explain;
    }
    at = 0;
    load(found);
    $("state").textContent = "";
  } catch (error) {
    $("state").textContent = error.message;
    $("state").className = "error";
  }
  $("run").disabled = false;
}
$("ask").onsubmit = (event) => {
  event.preventDefault();
  const prompt = $("prompt").value;
  asked_last = $("chat").checked
    ? ["/v1/chat/completions", { messages: [{ role: "user", content: prompt }] }]
    : ["/v1/completions", { prompt }];
  run();
};
$("forget").onclick = () => {
  talk = [];
  $("said").replaceChildren();
};
$("say").onsubmit = async (event) => {
  event.preventDefault();
  const message = $("message").value;
  $("message").value = "";
  talk.push({ role: "user", content: message });
  const asked = made("p", undefined, "said"),
    told = made("div", undefined, "said"),
    text = made("div", undefined, "text"),
    note = made("p", "", "soft");
  asked.append(made("b", "You: "), made("span", shown(message)));
  told.append(made("b", "Model:"), text, note);
  $("said").append(asked, told);
  try {
    const answer = await call("/v1/chat/completions", {
      messages: talk,
      ...chosen(),
      method: $("method").value,
      stream: true,
      stream_options: { include_usage: true },
    });
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "",
      whole = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const parts = (rest + value).split("\n\n");
      rest = parts.pop();
      for (const part of parts) {
        if (part === "data: [DONE]") continue;
        const chunk = JSON.parse(part.slice(6));
        if (chunk.error) throw new Error(chunk.error.message);
        for (const choice of chunk.choices) whole += choice.delta.content || "";
        if (chunk.usage)
          note.textContent =
            `${chunk.usage.completion_tokens} tokens, ` +
            `${Number(chunk.usage.tokens_per_forward).toFixed(2)} per forward`;
        text.textContent = shown(whole);
      }
    }
    talk.push({ role: "assistant", content: whole });
  } catch (error) {
    talk.pop();
    note.textContent = error.message;
    note.className = "error";
  }
};
function begin() {
  tabs();
  if (given.served) {
    $("ask").hidden = false;
    $("link").hidden = true; // a served page opens without a text
    for (const name of given.methods) {
      const option = made("option", name);
      option.value = name;
      option.selected = name === given.method;
      $("method").append(option);
    }
    $("views").hidden = false;
    $("facts").textContent = `${given.model} is served here. ` + $("facts").textContent;
  }
  const [, where, number] = /^#(\w+)=(\d+)$/.exec(location.hash) || [];
  at = Number(number || 0);
  if (traces.length) load(traces);
  if (given.schedule) {
    $("views").hidden = false;
    $("facts").textContent = given.title;
  }
  const first = given.schedule ? "batch" : "race";
  open_view(VIEWS.some(([id]) => id === where && offered(id)) ? where : first);
}
begin();
