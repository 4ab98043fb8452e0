"""The animated pictures of a text that is decoded: made from a run, and those of the README."""

import importlib.util
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from leapdecode import LLM

ROOT = Path(__file__).parent.parent
TOOL = ROOT / "tools" / "decoding_picture.py"
PROMPT = "Question: Tom has 3 bags with 4 apples each. How many apples are there?\nAnswer:"


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("decoding_picture", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def runs(tool):
    llm = LLM("demo", device="cpu", prefix_cache=False)
    return tool.runs_of(llm, llm.tokenizer(PROMPT)["input_ids"], max_tokens=40, rounds=1)


def panes(svg):
    """Of each pane the words of its text, and its ticks."""
    contents = []
    for pane in svg.iterfind("./{*}g"):
        steps = pane.findall("./{*}g")
        texts = [text for step in steps for text in step.iterfind("./{*}text[@textLength]")]
        places = [(float(text.get("y")), float(text.get("x")), text.text) for text in texts]
        letters = "".join(text for _, _, text in sorted(places))
        contents.append(("".join(letters.split()), len(pane.findall(".//{*}rect[@class='t']"))))
    return contents


@pytest.mark.parametrize("narrow", [False, True])
def test_both_panes_have_the_whole_text_and_a_tick_for_each_forward(tool, runs, narrow):
    plain, auto = runs
    svg = ElementTree.fromstring(tool.picture(plain, auto, PROMPT, narrow))
    text = "".join(plain.text.split())
    assert panes(svg) == [(text, len(plain.tokens)), (text, len(auto.tokens))]
    assert len(auto.tokens) < len(plain.tokens)
    assert {mark.step for mark in tool.marks_of(auto)} <= set(range(len(auto.tokens)))


def test_texts_that_differ_are_not_drawn(tool, monkeypatch):
    texts = iter("abcd")
    decode = lambda *_: tool.Run([1.0], [[(next(texts), "target")]])  # noqa: E731
    monkeypatch.setattr(tool, "decode", decode)
    with pytest.raises(ValueError, match="the texts differ"):
        tool.runs_of(None, [1], 1, rounds=1)


def test_lines_break_behind_a_space(tool):
    words = "    " + "word " * 12
    run = tool.Run([0.1], [[(words, "suffix")]])
    assert [(mark.line, mark.column, mark.text) for mark in tool.marks_of(run)] == [
        (0, 4, " ".join(["word"] * 9)), (1, 0, "word word word "),
    ]  # fmt: skip


def test_a_word_without_spaces_breaks_at_the_width(tool):
    run = tool.Run([0.1, 0.2], [[("  ab", "target")], [("x" * 50, "suffix"), ("\n", "suffix")]])
    marks = tool.marks_of(run)
    assert [(mark.line, mark.column, len(mark.text)) for mark in marks] == [
        (0, 2, 2), (0, 4, 44), (1, 0, 6),
    ]  # fmt: skip


def test_the_pictures_of_the_readme():
    places = re.findall(r'(?:src|srcset)="([^"]+)"', (ROOT / "README.md").read_text())
    assert len(places) == 2
    texts = set()
    for place in places:
        source = (ROOT / place).read_text()
        assert len(source) < 60_000
        assert "prefers-color-scheme:dark" in source
        assert "prefers-reduced-motion" in source
        drawn = panes(ElementTree.fromstring(source))
        (plain, most), (auto, fewest) = drawn
        assert plain == auto
        assert fewest < most
        texts.add(plain)
    assert len(texts) == 1
