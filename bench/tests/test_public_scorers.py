"""Scorers of public sets agree with their reference libraries and with what is known by hand."""

import math
import sqlite3
import sys
from fractions import Fraction

import pytest
import torch
from public_files import FILES

from leapdecode.errors import OptionError
from leapdecode_bench.measure.perplexity import perplexity
from leapdecode_bench.tasks.public import loading, spider
from leapdecode_bench.tasks.public.loading import Source, load
from leapdecode_bench.tasks.public.registry import find
from leapdecode_bench.tasks.public.scorers import bleu, cut, number_of, passes, rouge

PAIRS = [
    ("the cat sat on the mat", "the cat was sitting on a mat"),
    ("Dogs run .", "A dog was running home ."),
    ("", "nothing"),
    ("The house is old and very quiet today.", "The house is old and quite quiet today."),
]


@pytest.mark.parametrize(("text", "reference"), PAIRS)
def test_rouge_and_bleu_are_those_of_their_libraries(text, reference):
    import sacrebleu
    from rouge_score.rouge_scorer import RougeScorer

    for kind in ("rouge1", "rouge2", "rougeL"):
        wanted = RougeScorer([kind], use_stemmer=True).score(reference, text)[kind].fmeasure
        assert rouge(text, reference, kind) == wanted
    metric = sacrebleu.metrics.BLEU(effective_order=True)  # as sacrebleu's own sentence_bleu
    assert bleu(text, reference) == pytest.approx(
        metric.sentence_score(text, [reference]).score / 100
    )


def test_rouge_and_bleu_by_hand():
    # 2 of 3 words are right, 2 of 2 are found
    assert rouge("the cat sat", "the cat") == pytest.approx(2 * (2 / 3) * 1 / (2 / 3 + 1))
    # 5/5, 3/4, 1/3 n-grams, smoothed 1/2 of 2 4-grams: no brevity penalty
    said, reference = "a b c d f", "a b c e d f"
    found = bleu(said, reference)
    precisions = [5 / 5, 3 / 4, 1 / 3, 1 / (2 * 2)]
    assert found == pytest.approx(math.exp(1 - 6 / 5) * math.prod(precisions) ** (1 / 4))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (" 3 + 4 = 7. So the answer is 7.", 7),
        (" The answer is $1,200.50.", Fraction("1200.5")),
        ("It is 7 - 2 = 5.\n#### 5", 5),
        ("#### -3\nand more", -3),
        (" There are 7 of them.", None),
        ("", None),
    ],
)
def test_numbers(text, number):
    assert number_of(text) == number


def test_texts_are_cut_at_the_first_stop():
    assert cut("a\nprint(1)\ndef b", ("\ndef", "\nprint")) == "a"
    assert cut("a", ("b",)) == "a"


@pytest.mark.parametrize(
    "program",
    ["while True: pass", "import os", "open('x', 'w')", "raise SystemExit", "x = [0] * 10**10"],
)
def test_programs_are_limited(program):
    assert passes(program, "") == 0.0


def test_a_program_passes_by_its_tests_alone():
    assert passes("def f(x): return x + 1", "assert f(1) == 2") == 1.0
    assert passes("def f(x): return x + 1", "assert f(1) == 3") == 0.0


def test_queries_read_alone_and_end(tmp_path):
    FILES["spider"](tmp_path)
    path = tmp_path / "database" / "singers" / "singers.sqlite"
    before = path.read_bytes()
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT sum(x) FROM n"
    many = "SELECT count(*) FROM " + ", ".join(f"singer s{n}" for n in range(30))
    for query in (
        "DELETE FROM singer", "DROP TABLE singer", "INSERT INTO singer VALUES ('x', 1)",
        "ATTACH 'other.sqlite' AS other", "PRAGMA writable_schema = 1", "SELECT 1; SELECT 2",
        "SELECT load_extension('x')", endless, many, "no query", "", "\0",
    ):  # fmt: skip
        assert spider.result(path, query) is None, query
    assert path.read_bytes() == before
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        spider.opened(path).execute("CREATE TABLE t (x)")
    assert sorted(spider.result(path, "SELECT Age FROM singer")) == [(25,), (30,), (41,)]


def test_rows_count_in_order_where_the_query_orders_them(tmp_path):
    FILES["spider"](tmp_path)
    path = tmp_path / "database" / "singers" / "singers.sqlite"
    up, down = (f"SELECT Name FROM singer ORDER BY Age {way}" for way in ("ASC", "DESC"))
    assert spider.same_result(path, up, "SELECT Name FROM singer")
    assert not spider.same_result(path, up, down)
    assert spider.same_result(path, "SELECT avg(Age) FROM singer", "SELECT 96 / 3.0")


def test_a_plan_is_valid_by_every_action(tmp_path):
    path, _ = FILES["blocksworld6"](tmp_path)
    found = find("blocksworld6")
    item = load(Source(found, path=path), 1).items[0]
    steps = ["unstack blue from red", "put down blue", "pick up orange", "stack orange on red"]
    assert found.score(item, "\n".join(steps)) == 1.0
    for left_out in range(4):
        assert found.score(item, "\n".join(steps[:left_out] + steps[left_out + 1 :])) == 0.0


def test_perplexity_is_that_of_transformers_loss(llm):
    text = "def add(a, b):\n    return a + b\n" * 8
    ids = torch.tensor([llm.tokenizer(text)["input_ids"]])
    with torch.inference_mode():
        loss = float(llm.model(input_ids=ids, labels=ids).loss)
    assert perplexity(llm, [text]) == pytest.approx(math.exp(loss), rel=1e-4)
    assert perplexity(llm, [text], window=16) > perplexity(llm, [text])
    assert perplexity(llm, []) is perplexity(llm, ["a"]) is None


def test_a_missing_library_is_named_with_its_extra(tmp_path, monkeypatch):
    path, _ = FILES["cnn_dailymail"](tmp_path)
    monkeypatch.setattr(loading, "find_spec", lambda name: None)
    with pytest.raises(OptionError, match=r"rouge-score: pip install 'leapdecode\[eval\]'"):
        load(Source(find("cnn_dailymail"), path=path), 1)


def test_scorers_are_imported_when_a_text_is_scored():
    import subprocess

    code = (
        "import leapdecode_bench.tasks.public.registry as r, sys; r.names(); "
        "print([m for m in ('torch', 'rouge_score', 'sacrebleu', 'datasets', 'pyarrow') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
