"""The requests that `transformers serve` and vLLM show in their documentation, by the same clients.

Questions, models and lengths are ours; calls, clients and fields are theirs.
"""

import asyncio
import json
import re

import openai
import pytest
from huggingface_hub import InferenceClient
from served import HOST, serving

ASKED = [{"role": "user", "content": "What is a river known for?"}]
TALK = [
    {"role": "system", "content": "You answer in one sentence."},
    {"role": "user", "content": "Which river flows through Paris?"},
    {"role": "assistant", "content": "The Seine flows through Paris."},
    {"role": "user", "content": "Where does it end?"},
]
ROW = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "size": {"enum": ["small", "big"]}},
    "required": ["name", "size"],
    "additionalProperties": False,
}
SELECT = """
start: "SELECT " column ("," column)* " FROM " column
column: /[a-z_]{1,8}/
"""


@pytest.fixture(scope="module")
def served(quick):
    with serving(quick, max_tokens=120) as server:
        yield server


@pytest.fixture(scope="module")
def root(served):
    return f"http://{HOST}:{served.port}"


@pytest.fixture
def client(root):
    with openai.OpenAI(base_url=f"{root}/v1", api_key="EMPTY") as one:
        yield one


def said(chunks):
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


def test_hugging_faces_client(root):
    client = InferenceClient(root)
    whole = client.chat_completion(ASKED, model="demo", max_tokens=16, temperature=0.0)
    chunks = client.chat_completion(
        ASKED, model="demo", max_tokens=16, temperature=0.0, stream=True
    )
    assert said(chunks) == whole.choices[0].message.content != ""
    assert whole.usage.completion_tokens == 16


def test_openais_client_without_a_limit(client):
    model = client.models.list().data[0].id
    asked = {"model": model, "messages": TALK, "seed": 2}
    whole = client.chat.completions.create(**asked)
    assert whole.choices[0].finish_reason in ("stop", "length")
    assert said(client.chat.completions.create(**asked, stream=True)) == (
        whole.choices[0].message.content
    )


def test_curls_body(served):
    body = {"model": "demo", "messages": ASKED, "temperature": 0.9, "max_tokens": 16}
    status, document = served.ask("/v1/chat/completions", body)
    assert status == 200
    assert document["choices"][0]["message"]["role"] == "assistant"
    documents, ended = served.events("/v1/chat/completions", body)
    assert ended
    assert documents[0]["choices"][0]["delta"]["role"] == "assistant"


def test_completions_with_fields_at_their_usual_values(client):
    model = client.models.list().data[0].id
    asked = {"model": model, "prompt": "A river may not", "echo": False, "temperature": 0.0}
    whole = client.completions.create(**asked, logprobs=3)
    chunks = client.completions.create(**asked, stream=True)
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text
    assert len(whole.choices[0].logprobs.top_logprobs[0]) >= 3


def test_twenty_at_a_time(root):
    async def ask(client):
        stream = await client.chat.completions.create(
            model="demo", messages=[*TALK[:1], {"role": "user", "content": "A river. " * 100}],
            stream=True, temperature=0.0, max_completion_tokens=8,
        )  # fmt: skip
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    async def ask_all():
        async with openai.AsyncOpenAI(base_url=f"{root}/v1", api_key="EMPTY") as client:
            return await asyncio.gather(*[ask(client) for _ in range(20)])

    assert len(set(asyncio.run(ask_all()))) == 1


@pytest.mark.parametrize(
    ("structure", "form"),
    [
        ({"choice": ["positive", "negative"]}, r"positive|negative"),
        ({"regex": r"[a-z]{2,6}@[a-z]{2,6}\.com"}, r"[a-z]{2,6}@[a-z]{2,6}\.com"),
        ({"grammar": SELECT}, r"SELECT [a-z_]+(,[a-z_]+)* FROM [a-z_]+"),
    ],
)
def test_structured_outputs(client, structure, form):
    answer = client.chat.completions.create(
        model="demo", messages=ASKED, extra_body={"structured_outputs": structure}, seed=1
    )
    assert answer.choices[0].finish_reason == "stop"
    assert re.fullmatch(form, answer.choices[0].message.content)


def test_answers_by_a_schema(client):
    form = {"type": "json_schema", "json_schema": {"name": "row", "schema": ROW}}
    answer = client.chat.completions.create(
        model="demo", messages=ASKED, response_format=form, temperature=0.0
    )
    assert set(json.loads(answer.choices[0].message.content)) == {"name", "size"}
