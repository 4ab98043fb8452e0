"""Pools and stores in files: any bytes are refused in one line, or give something of use."""

import json
import tempfile
from pathlib import Path

import pytest
from damaged import damaged_bytes
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import runner

from leapdecode import LLM, Pool, SamplingParams, Store
from leapdecode.errors import PoolError

SHORT = SamplingParams(max_tokens=4)
PROMPT = [1, 2, 3]
WHOLE = {
    "pool": {"format": 2, "tokenizer": None, "ngrams": [[1, [4], 2, 3], [3, [], 2, 3, 7, 9]]},
    "store": {"format": 1, "tokenizer": None, "texts": [["a", "0", 3, 7, 9], ["b", "1", 3, 9]]},
}
KINDS = {"pool": Pool, "store": Store}
METHODS = {"pool": "ouroboros", "store": "suffix"}
DEEP = b"[" * 200_000


def loaded(kind, content):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.json"
        path.write_bytes(content)
        return KINDS[kind].load(path)


def result_or_refusal(work, *arguments, **options):
    try:
        return work(*arguments, **options), None
    except PoolError as error:
        return None, str(error)


def check(kind, content):
    """What a file of these bytes gives is an error of one line, or can be kept and used."""
    found, refusal = result_or_refusal(loaded, kind, content)
    if refusal:
        assert f"file.json is no readable {kind}" in refusal
        assert "\n" not in refusal
        return
    again = loaded(kind, json.dumps(found.document()).encode())
    assert again.document() == found.document()
    llm = LLM(runner("llama").model, draft=runner("llama").model, exact=False)
    how = {"method": METHODS[kind], "sampling": SHORT}
    text, refusal = result_or_refusal(llm.generate, PROMPT, **how, **{kind: found})
    if refusal:
        assert "holds token" in refusal or "another tokenizer" in refusal
    else:
        assert text.token_ids == llm.generate(PROMPT, **how).token_ids


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60)
@given(data=st.data())
def test_any_bytes_are_refused_in_one_line_or_are_of_use(kind, data):
    check(kind, data.draw(damaged_bytes(WHOLE[kind])))


@pytest.mark.parametrize("kind", KINDS)
def test_what_hypothesis_seldom_draws(kind):
    """Deeper than can be read, a number longer than can be read, and values of another kind."""
    name = "ngrams" if kind == "pool" else "texts"
    begin = json.dumps(WHOLE[kind] | {name: 0})[:-2].encode()
    entries = {
        "pool": [b"5", b"[5]", b'["abcd"]', b"[[0, [[]], 1, 2]]", b"[[0, [], 1, true]]"],
        "store": [b"5", b"[5]", b"[[]]", b'[["a"]]', b'[["a", 0, 1]]', b'[["a", "0", -1]]'],
    }
    more = {
        "pool": [b"[[0, [], 1]]", b"[[0, [], 1, " + b"9" * 5000 + b"]]"],
        "store": [b'[["a", "0", %s]]' % last for last in (b"1.0", b"true", b"2147483648")],
    }
    wrong = [begin + entry + b"}" for entry in entries[kind] + more[kind] + [DEEP]]
    other = [json.dumps(WHOLE[kind] | {"tokenizer": value}).encode() for value in (5, ["a"])]
    version = json.dumps(WHOLE[kind] | {"format": 9}).encode()
    for content in [*wrong, *other, version, b"\xff", DEEP, b'{"a":' * 100_000]:
        with pytest.raises(PoolError, match=f"no readable {kind}") as caught:
            loaded(kind, content)
        assert "\n" not in str(caught.value)
