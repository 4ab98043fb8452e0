"""Trees on a terminal, on a page, in a picture and on the command line."""

import io
import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest
from commands import call, errors
from rich.console import Console
from typer.testing import CliRunner

from leapdecode.cli.app import app
from leapdecode.model import embedded
from leapdecode.reasoning.draw import picture, terminal, webpage
from leapdecode.reasoning.tree import Counts, Node, Tree

HOSTILE = "\x1b[2J\x9b0m<script>alert('1')</script> & [bold]x[/bold] $x^2 _a \u202egnp.exe \x00 ]]>"
VOID = {"meta", "br"}
SMALL = ("--example", "0", "--depth", "2", "--thoughts", "2")


def made(thought="a thought", question="Why?"):
    root = Node()
    for number, value in enumerate([3, 8.5, None]):
        root.children.append(Node((number,), f"{thought} {number}", value, thought, parent=root))
    chosen = root.children[1]
    chosen.children.append(Node((1, 0), thought, 9, "", True, chosen))
    tree = Tree(question, "math", {"search": "breadth_first", "model": thought}, root)
    tree.chosen, tree.answer, tree.counts = chosen.children[0], thought, Counts(4, 4, 0, 1, 0)
    return tree


def printed(tree, **options):
    console = Console(file=io.StringIO(), width=120, highlight=False, **options)
    console.print(terminal(tree))
    return console.file.getvalue()


def test_the_chosen_path_is_marked_without_colours():
    lines = printed(made()).splitlines()
    assert [line.lstrip(" │├└─") for line in lines] == [
        "Why?",
        "3  a thought 0",
        "* 8.5  a thought 1",
        "* 9  a thought",
        "?  a thought 2",
    ]


def test_the_chosen_path_is_marked_with_colours():
    lines = printed(made(), force_terminal=True, color_system="standard").splitlines()
    assert ["32m" in line for line in lines] == [False, False, True, True, False]


def test_model_text_cannot_steer_a_terminal():
    shown = printed(made(HOSTILE, HOSTILE))
    assert not {"\x1b", "\x9b", "\x00", "\u202e"} & set(shown)
    assert "[bold]x[/bold]" in shown
    assert r"\x1b[2J" in shown


class Page(HTMLParser):
    """The elements and texts of a page; every element must be closed."""

    def __init__(self, page):
        super().__init__()
        self.open, self.seen, self.texts = [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_model_text_is_no_part_of_a_page():
    usual, hostile = Page(webpage(made())), Page(webpage(made(HOSTILE, HOSTILE)))
    assert [tag for tag, _ in hostile.seen] == [tag for tag, _ in usual.seen]
    assert "script" not in {tag for tag, _ in hostile.seen}
    assert not {"\x1b", "\x9b", "\x00", "\u202e"} & set(webpage(made(HOSTILE, HOSTILE)))
    assert any("<script>alert('1')</script>" in text for text in hostile.texts)


def test_a_page_shows_values_explanations_and_the_chosen_path():
    page = Page(webpage(made()))
    classes = [found.get("class") for tag, found in page.seen if tag == "li"]
    assert classes == [None, "chosen", "chosen", None]
    assert sum(tag == "details" for tag, _ in page.seen) == 3
    assert "chosen" in page.texts
    assert {"8.5", "?", "breadth_first", "not scored"} <= {text.strip() for text in page.texts}


def test_a_page_needs_nothing_beside_it():
    for tag, attributes in Page(webpage(made())).seen:
        assert tag not in {"script", "link", "img", "iframe"}
        assert not {"src", "href", "onclick"} & set(attributes)


def test_a_picture_is_svg_whatever_the_model_wrote():
    root = ET.fromstring(picture(made(HOSTILE, HOSTILE)))
    assert {element.tag.rpartition("}")[2] for element in root.iter()} == {
        element.tag.rpartition("}")[2] for element in ET.fromstring(picture(made())).iter()
    }
    texts = "".join(root.itertext())
    assert "<script>" in texts
    assert "$x^2" in texts
    assert picture(made()) == picture(made())


def test_a_picture_marks_the_chosen_path():
    texts = [text.strip() for text in ET.fromstring(picture(made())).itertext() if text.strip()]
    assert {"* a thought 1", "* a thought", "a thought 0", "a thought 2", "8.5", "?"} <= set(texts)


@pytest.mark.parametrize("draw", [terminal, webpage, picture])
def test_a_tree_without_thoughts_can_be_drawn(draw):
    tree = Tree("Why?", "math", {}, Node())
    tree.chosen = tree.root
    assert draw(tree)


def told(*arguments):
    return CliRunner().invoke(app, ["tree", "solve", *arguments])


BAD = [
    ((), "give a question or --example"),
    (("Why?", "--example", "0"), "give a question or --example"),
    (("--example", "-1"), "must be from 0 to 9999"),
    (("",), "question is empty"),
    (("Why?", "--task", "maths"), "did you mean 'math'"),
    (("Why?", "--task", "none.toml"), "cannot read none.toml"),
    (("Why?", "--search", "dfs"), "unknown search 'dfs'"),
    (("Why?", "-o", "walks=3"), "has no option 'walks'"),
    (("Why?", "--search", "mcts", "-o", "walks=x"), "must be a whole number"),
    (("Why?", "--search", "mcts", "--evaluator", "vote"), "votes compare"),
    (("Why?", "--evaluator", "votes"), "did you mean 'vote'"),
    (("Why?", "--method", "lookahead", "-o", "windw=5"), "did you mean 'window'"),
    (("Why?", "--method", "lookahead", "-o", "window=x"), "must be a whole number"),
    (("Why?", "--strategy", "scheduled:verfy=1"), "did you mean 'verify'"),
    (("Why?", "--strategy", "serial:replacement=true"), "has no option 'replacement'"),
    (("Why?", "--top-p", "2"), "top_p=2"),
    (("Why?", "--budget", "some"), "--budget 'some'"),
    (("Why?", "--strategy", "parallel?"), "unknown strategy"),
    (("Why?", "--thoughts", "0"), "thoughts=0"),
    (("Why?", "--breadth", "0"), "breadth=0"),
    (("Why?", "--depth", "0"), "depth=0"),
    (("Why?", "--samples", "0"), "samples=0"),
    (("Why?", "--temperature", "-1"), "temperature=-1"),
    (
        ("Why?", "--html", "/nowhere/x.html"),
        "cannot be written: it is a folder, or its folder does not exist",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=range(len(BAD)))
def test_bad_input_ends_with_2_before_a_model_is_loaded(arguments, message, tmp_path):
    (tmp_path / "config.json").write_text("{}")  # a model that does not load
    done = told(*arguments, "-m", str(tmp_path))
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert done.stderr.startswith("error: ")
    assert len(errors(done)) == 1
    assert done.stdout == ""


def test_a_model_that_is_not_there_ends_with_3():
    assert told("Why?", "-m", "/no/such/model").exit_code == 3


def test_json_is_one_document_and_the_files_hold_the_tree(tmp_path):
    files = [tmp_path / name for name in ("tree.html", "tree.svg", "tree.json", "when.html")]
    options = [
        part
        for option, path in zip(("--html", "--svg", "--output", "--schedule"), files, strict=True)
        for part in (option, str(path))
    ]
    done = call("tree", "solve", *SMALL, "--json", *options)
    assert done.returncode == 0, done.stderr
    assert errors(done) == []
    document = json.loads(done.stdout)
    assert json.loads(files[2].read_text()) == document
    assert list(document) == [
        "schema", "task", "question", "settings", "answer", "score", "chosen", "counts", "root",
    ]  # fmt: skip
    assert document["settings"]["strategy"] == "batched-speculative"
    assert document["counts"]["thoughts"] == 2
    tree = Tree.from_json(document)
    assert files[0].read_text() == webpage(tree)
    assert files[1].read_text() == picture(tree)
    assert re.search(r'"schedule": \[\["(draft|target)"', files[3].read_text())


def test_a_question_may_come_through_a_pipe():
    done = call("tree", "solve", "-", "--depth", "1", stdin=b"Tom has 3 pens. How many are left?")
    assert done.returncode == 0, done.stderr
    shown = done.stdout.decode().splitlines()
    assert shown[0].rstrip() == "Tom has 3 pens. How many are left?"
    assert shown[-1] == "score: not scored"
    counts_line, cost_line = done.stderr.decode().splitlines()
    assert counts_line.startswith("0 thoughts")
    assert re.fullmatch(
        r"\d+ tokens in \d+ forwards of the target( and \d+ of the draft)?, \d+\.\d seconds",
        cost_line,
    )


def test_evaluations_that_cannot_be_read_are_said(tmp_path):
    """The embedded pair cannot vote."""
    model = embedded.checked("draft")
    done = told(
        "Why?", "-m", str(model), "--evaluator", "vote", "--depth", "2", "--thoughts", "1",
        "--max-tokens", "6", "--strategy", "batched", "--json",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["counts"]["undecided"] == 1
    assert "in 1 steps of the search no evaluation could be read" in done.stderr
