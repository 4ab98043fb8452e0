"""The server as clients see it: OpenAI's own client, and requests by hand."""

import http.client
import json
import threading

import openai
import pytest
import torch
from served import HOST, serving

from leapdecode import LLM, SamplingParams
from leapdecode.server.bodies import Completion, StructuredOutputs
from leapdecode.server.grammars import Grammar, grammar_of

PROMPT = "Question: Tom has 3 bags with 4 apples each. How many"
CHAT = [{"role": "user", "content": "Tom has 3 bags with 4 apples each."}]


@pytest.fixture(scope="module")
def served(quick):
    """Few layers do: what is tested here is not the model."""
    llm = LLM(quick.model, quick.tokenizer, draft=quick.draft, exact=True)
    with serving(llm) as server:
        yield server


@pytest.fixture(scope="module")
def client(served):
    with openai.OpenAI(base_url=f"http://{HOST}:{served.port}/v1", api_key="none") as one:
        yield one


def alone(served, prompt, **sampling):
    """The text by plain decoding, without the server."""
    return served.llm.generate(prompt, method="autoregressive", sampling=SamplingParams(**sampling))


def test_models(client):
    assert [one.id for one in client.models.list()] == ["demo", "other"]
    assert client.models.retrieve("demo").id == "demo"
    with pytest.raises(openai.NotFoundError, match="no model"):
        client.models.retrieve("third")


@pytest.mark.parametrize("path", ["/health", "/"])
def test_a_probe_may_ask_for_the_head_alone(served, path):
    connection = http.client.HTTPConnection(HOST, served.port)
    connection.request("HEAD", path)
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (200, b"")
    connection.close()


def test_a_completion_is_the_models_own_text(served, client):
    found = client.completions.create(
        model="demo", prompt=PROMPT, max_tokens=40, temperature=0,
        extra_body={"method": "lookahead"},  # which guesses whatever rows cost here
    )  # fmt: skip
    expected = alone(served, PROMPT, max_tokens=40)
    (choice,) = found.choices
    assert choice.text == expected.text
    assert choice.finish_reason == expected.finish_reason
    assert found.usage.prompt_tokens == len(expected.prompt_token_ids)
    assert found.usage.completion_tokens == len(expected.token_ids)
    assert found.usage.tokens_per_forward > 1
    speculation = found.metrics["speculative_decoding"]
    assert sum(speculation["acceptance_histogram"]) == speculation["num_spec_steps"]
    assert found.exact is True


def test_a_chat_goes_through_the_template(served, client):
    found = client.chat.completions.create(
        model="demo", messages=CHAT, max_tokens=30, temperature=0
    )
    assert found.choices[0].message.content == alone(served, CHAT, max_tokens=30).text
    parts = [{"type": "text", "text": CHAT[0]["content"]}]
    again = client.chat.completions.create(
        model="demo", messages=[{"role": "user", "content": parts}], max_tokens=30, temperature=0
    )
    assert again.choices[0].message.content == found.choices[0].message.content


@pytest.mark.parametrize("temperature", [0, 0.8])
def test_streams_say_what_whole_answers_say(served, client, temperature):
    wanted = {
        "model": "demo", "messages": CHAT, "max_tokens": 30, "temperature": temperature, "n": 3,
        "seed": 5, "logprobs": True, "top_logprobs": 2,
    }  # fmt: skip
    whole = client.chat.completions.create(**wanted)
    stream = client.chat.completions.create(
        **wanted, stream=True, stream_options={"include_usage": True}
    )
    texts, logprobs, ends, usage = ["", "", ""], [[], [], []], [None] * 3, None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            logprobs[choice.index] += choice.logprobs.content if choice.logprobs else []
            ends[choice.index] = choice.finish_reason or ends[choice.index]
    assert texts == [choice.message.content for choice in whole.choices]
    assert ends == [choice.finish_reason for choice in whole.choices]
    assert logprobs == [choice.logprobs.content for choice in whole.choices]
    assert usage.completion_tokens == whole.usage.completion_tokens
    expected = served.llm.generate(
        CHAT, sampling=SamplingParams(max_tokens=30, temperature=temperature, seed=5, n=3)
    )
    assert texts == [one.text for one in expected]


def test_logprobs_of_completions(client):
    wanted = {"model": "demo", "prompt": PROMPT, "max_tokens": 12, "temperature": 0, "logprobs": 2}
    found = client.completions.create(**wanted).choices[0]
    assert "".join(found.logprobs.tokens) == found.text
    for start, token in zip(found.logprobs.text_offset, found.logprobs.tokens, strict=True):
        assert found.text[start:].startswith(token)
    assert all(
        own == pytest.approx(max(top.values()))
        for own, top in zip(found.logprobs.token_logprobs, found.logprobs.top_logprobs, strict=True)
    )
    chunks = [part.choices[0] for part in client.completions.create(**wanted, stream=True)]
    streamed = [one for part in chunks if part.logprobs for one in part.logprobs.text_offset]
    assert streamed == found.logprobs.text_offset


def test_sampling_reaches_the_engine(served, client):
    sampling = {"temperature": 0.9, "top_p": 0.8, "seed": 7, "presence_penalty": 0.5}
    own = {"top_k": 20, "min_p": 0.01, "repetition_penalty": 1.2}
    found = client.completions.create(
        model="demo", prompt=PROMPT, max_tokens=25, stop=["zz"], logit_bias={"5": -100.0},
        extra_body={**own, "method": "lookahead", "options": {"window": 4}}, **sampling,
    )  # fmt: skip
    expected = alone(
        served, PROMPT, max_tokens=25, stop=["zz"], logit_bias={5: -100.0}, **sampling, **own
    )
    assert found.choices[0].text == expected.text


def test_many_prompts_and_token_ids(served, client):
    ids = alone(served, PROMPT, max_tokens=1).prompt_token_ids
    found = client.completions.create(
        model="demo", prompt=[ids, ids[:5]], max_tokens=10, temperature=0, n=2
    )
    expected = [alone(served, one, max_tokens=10).text for one in (ids, ids[:5])]
    assert [one.text for one in found.choices] == [expected[0]] * 2 + [expected[1]] * 2
    assert found.usage.prompt_tokens == len(ids) + 5


def test_tokens_there_and_back(served):
    status, found = served.ask("/tokenize", {"prompt": PROMPT})
    assert status == 200
    assert found["count"] == len(found["tokens"])
    assert served.ask("/detokenize", {"tokens": found["tokens"]})[1]["prompt"] == PROMPT
    assert served.ask("/tokenize", {"messages": CHAT})[1]["count"] > 0
    assert served.ask("/detokenize", {"tokens": [10**6]})[0] == 400


def test_every_forward_can_be_explained(served):
    body = {"prompt": PROMPT, "max_tokens": 20, "temperature": 0, "explain": True}
    _, found = served.ask("/v1/completions", body)
    (trace,) = found["explain"]
    assert trace["schema"] == 1
    tokens = [one["text"] for step in trace["steps"] for one in step["tokens"]]
    assert "".join(tokens) == found["choices"][0]["text"]
    more = {"n": 3, "temperature": 1, "ignore_eos": True, "max_tokens": 100}
    _, found = served.ask("/v1/completions", {**body, **more})
    assert len(found["explain"]) == 3
    first = max(trace["steps"][0]["clock"] for trace in found["explain"])
    assert all(trace["steps"][-1]["clock"] > first for trace in found["explain"]), "one by one"


def test_errors_have_openais_form(client):
    with pytest.raises(openai.BadRequestError, match="temperature") as caught:
        client.completions.create(model="demo", prompt="a", temperature=3)
    assert caught.value.param == "temperature"
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="gpt-4", prompt="a")
    with pytest.raises(openai.BadRequestError, match="did you mean 'lookahead'"):
        client.completions.create(model="demo", prompt="a", extra_body={"method": "lokahead"})
    with pytest.raises(openai.BadRequestError, match="context has 2,048"):
        client.completions.create(model="demo", prompt=[5] * 3000)


def test_metrics_count_what_was_done(quick):
    with serving(quick) as served:
        body = {"prompt": PROMPT, "max_tokens": 10, "temperature": 0}
        _, found = served.ask("/v1/completions", body)
        page = served.fetch("/metrics")[1]
        lines = dict(line.rsplit(" ", 1) for line in page.splitlines() if line[0] != "#")
        label = '{model_name="demo"}'
        tokens = found["usage"]["completion_tokens"]
        assert float(lines[f"vllm:generation_tokens_total{label}"]) == tokens
        assert float(lines[f"vllm:num_requests_running{label}"]) == 0
        accepted = found["metrics"]["speculative_decoding"]["num_accepted_draft_tokens"]
        assert float(lines[f"vllm:spec_decode_num_accepted_tokens_total{label}"]) == accepted
        reason = found["choices"][0]["finish_reason"]
        assert (
            float(
                lines[f'vllm:request_success_total{{finished_reason="{reason}",model_name="demo"}}']
            )
            == 1
        )


SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "bags": {"type": "integer", "minimum": 0, "maximum": 99},
    },
    "required": ["name", "bags"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("method", "temperature"), [("auto", 0), ("lookahead", 1), ("draft_model", 0)]
)
def test_answers_follow_a_schema_and_stay_the_models_own(served, method, temperature):
    """With every method the constrained text of plain decoding, at every step of a tree."""
    body = {
        "messages": CHAT, "max_tokens": 120, "temperature": temperature, "seed": 3,
        "response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}},
    }  # fmt: skip
    _, found = served.ask("/v1/chat/completions", {**body, "method": method})
    _, plain = served.ask("/v1/chat/completions", {**body, "method": "autoregressive"})
    text = found["choices"][0]["message"]["content"]
    assert text == plain["choices"][0]["message"]["content"]
    assert found["choices"][0]["finish_reason"] == "stop"
    said = json.loads(text)
    assert set(said) == {"name", "bags"}
    assert isinstance(said["bags"], int)
    parts, done = served.events("/v1/chat/completions", {**body, "method": method})
    assert done
    assert "".join(part["choices"][0]["delta"].get("content", "") for part in parts) == text


@pytest.mark.parametrize(
    ("structure", "rule"),
    [
        ({"regex": "[0-9]{3}-[a-z]{1,5}!"}, r"[0-9]{3}-[a-z]{1,5}!"),
        ({"choice": ["apples", "bags of apples", "none"]}, "apples|bags of apples|none"),
        ({"grammar": 'start: "<" /[a-c]{1,5}/ ">"'}, "<[a-c]{1,5}>"),
        ({"json": {"type": "integer", "minimum": 0, "maximum": 999}}, "[0-9]{1,3}"),
    ],
)
def test_other_forms_of_answers(served, structure, rule):
    import re

    body = {"prompt": PROMPT, "max_tokens": 40, "structured_outputs": structure, "seed": 1}
    status, found = served.ask("/v1/completions", body)
    assert status == 200, found
    choice = found["choices"][0]
    assert choice["finish_reason"] == "stop"
    assert re.fullmatch(rule, choice["text"]), choice["text"]


@pytest.mark.parametrize(
    ("body", "param", "said"),
    [
        ({"structured_outputs": {"choice": ["a"]}, "ignore_eos": True}, "ignore_eos", "ends where"),
        ({"structured_outputs": {"regex": "("}}, "structured_outputs", "cannot be used"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {
            "type": "nonsense"}}}}, "response_format", "cannot be used"),
        ({"response_format": {"type": "json_schema"}}, "response_format", "needs the field"),
    ],
)  # fmt: skip
def test_a_form_that_cannot_be_is_refused_by_its_field(served, body, param, said):
    status, found = served.ask("/v1/completions", {"prompt": PROMPT, **body})
    assert status == 400
    assert found["error"]["param"] == param
    assert said in found["error"]["message"]


METHODS = ("auto", "autoregressive", "lookahead", "jacobi", "ouroboros", "draft_model", "suffix")


def test_a_text_does_not_depend_on_who_else_is_served(served):
    """Clients at once, with methods, lengths and temperatures of their own."""
    wanted = []
    for number in range(14):
        wanted.append({
            "prompt": [PROMPT, "def add(a, b):", "Once there was"][number % 3] + " " * (number % 2),
            "max_tokens": 5 + 3 * number % 31, "temperature": [0, 0.7, 1][number % 3],
            "seed": number, "method": METHODS[number % len(METHODS)],
        })  # fmt: skip
    found = [None] * len(wanted)

    def one(number):
        if number % 2:
            parts, done = served.events("/v1/completions", wanted[number])
            assert done
            found[number] = "".join(part["choices"][0]["text"] for part in parts)
        else:
            _, document = served.ask("/v1/completions", wanted[number])
            found[number] = document["choices"][0]["text"]

    threads = [threading.Thread(target=one, args=(number,)) for number in range(len(wanted))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for body, text in zip(wanted, found, strict=True):
        kept = {key: body[key] for key in ("max_tokens", "temperature", "seed")}
        assert text == alone(served, body["prompt"], **kept).text, body


def test_texts_are_right_beside_clients_that_leave(served):
    """Of 14 that stream, a third leaves after a first token; nothing of them stays."""
    bodies = [
        {
            "prompt": [PROMPT, "def add(a, b):", "Once there was"][number % 3], "seed": number,
            "temperature": [0, 0.7][number % 2], "max_tokens": 16 if number % 3 else 400,
            "method": METHODS[number % len(METHODS)], "ignore_eos": True, "stream": True,
        }
        for number in range(14)
    ]  # fmt: skip
    texts = {}

    def read(number):
        connection = http.client.HTTPConnection(HOST, served.port, timeout=300)
        connection.request("POST", "/v1/completions", json.dumps(bodies[number]))
        answer, text = connection.getresponse(), ""
        while (line := answer.readline()) and line != b"data: [DONE]\n":
            if line.startswith(b"data: "):
                text += json.loads(line.removeprefix(b"data: "))["choices"][0]["text"]
            if text and number % 3 == 0:
                break
        texts[number] = text
        connection.close()

    threads = [threading.Thread(target=read, args=(number,)) for number in range(14)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, body in enumerate(bodies):
        kept = {key: body[key] for key in ("max_tokens", "temperature", "seed", "ignore_eos")}
        kept["max_tokens"] = 16
        expected = alone(served, body["prompt"], **kept).text
        assert texts[number] == expected or (number % 3 == 0 and texts[number]), body
    assert served.idle()
    engine = served.service.llm.engine
    assert not engine.active
    assert not served.service.tickets


def test_every_path_has_a_mask_of_its_own(served):
    """Nodes of one depth, forth and back: each sees what its own path allows."""
    jobs, tokenizer = served.service.jobs, served.llm.tokenizer
    structure = StructuredOutputs.model_validate({"regex": "(a1|b2)+;"})
    body = Completion(prompt="x", structured_outputs=structure)
    follows = Grammar(jobs.grammars.form(grammar_of(body)), 2)
    letter = {text: tokenizer.encode(text, add_special_tokens=False)[0] for text in "ab12;"}

    def allowed(*paths):
        ids = torch.tensor([[7, 7, *(letter[one] for one in path)] for path in paths])
        scores = follows(ids, torch.zeros(len(paths), served.llm.runner.vocabulary))
        return ["".join(t for t in "ab12;" if scores[row, letter[t]] == 0)
                for row in range(len(paths))]  # fmt: skip

    assert allowed("") == ["ab"]
    assert allowed("a", "b") == ["1", "2"]
    assert allowed("b2a", "a1b", "a1a") == ["1", "2", "1"]
    assert allowed("a") == ["1"]
    assert allowed("a1", "b2") == ["ab;", "ab;"]
