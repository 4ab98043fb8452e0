"""The lookahead window against a slow reference of the paper's figures.

No text shows a window that is misaligned: it is right all the same, and only a little slower. So
every level, every stale column and every harvested n-gram is compared.
"""

import random
from dataclasses import dataclass, field

import pytest
import torch
from tiny import CONFIGS, finish, new_model, prompts, runner

from leapdecode import LLM, SamplingParams
from leapdecode.core import Request, Sequence, TokenTree
from leapdecode.engine.exact_trees import Carried, arrange
from leapdecode.methods.lookahead import Lookahead
from leapdecode.methods.planner import Planner
from leapdecode.model.exactness import Exactness
from leapdecode.pools.window import LookaheadWindow

VOCABULARY = 4  # so few that n-grams and the window share nodes
FILLER = VOCABULARY  # never chosen


@dataclass
class Column:
    """A trajectory: its tokens at successive places of the text from `start` on, and how many of
    the first of them a column may not hold when it is harvested, because they are filler.
    """

    start: int
    tokens: list[int]
    filler: int


@dataclass
class Reference:
    """Figures 4 and 5 by absolute places: no grid, no tree, no shift.

    A column is a list of tokens. In every step the model adds a token behind each; a column of N
    tokens is an n-gram, and loses its first one. A column whose first token the text has passed is
    done; others begin at the right end.
    """

    width: int
    ngram: int
    choose: object  # the model: a token behind a list of tokens
    columns: list[Column] = field(default_factory=list)

    def begin(self, text):
        """W columns of one token, from the end of the text on."""
        root = len(text) - 1
        self.columns = [Column(root + place, [FILLER], 0) for place in range(self.width)]

    def resize(self, width, text):
        """Other columns than before at the right end."""
        if not self.columns:
            self.width = width
            self.begin(text)
            return
        self.columns = self.columns[:width]
        self._fill(width)

    def _fill(self, width):
        self.width = width
        height = len(self.columns[0].tokens) if self.columns else 0
        while self.columns and len(self.columns) < width:
            start = self.columns[-1].start + 1
            self.columns.append(Column(start, [FILLER] * height, height))

    def step(self, text, accepted, evaluated):
        """One forward behind `text`, whose last token is the root, then `accepted` further tokens.

        `evaluated` says for each column whether the model was asked. Returns the n-grams.
        """
        if not self.columns:
            return []
        root = len(text) - 1
        height = len(self.columns[0].tokens)
        self.columns[0].tokens[0] = text[-1]
        firsts = [column.tokens[0] for column in self.columns]
        for place, column in enumerate(self.columns):
            assert column.start == root + place
            context = [*text, *firsts[1 : place + 1], *column.tokens[1:]]
            if evaluated[place]:
                column.tokens.append(self.choose(context))
            else:
                column.tokens.append(FILLER)
                column.filler = height + 1
        ngrams = []
        if height + 1 == self.ngram:
            for column in self.columns:
                first, *rest = column.tokens
                if not column.filler:
                    ngrams.append((first, tuple(rest)))
                column.tokens = rest
                column.start += 1
                column.filler = max(column.filler - 1, 0)
        height = len(self.columns[0].tokens)
        end = root + accepted
        self.columns = [column for column in self.columns if column.start >= end]
        while len(self.columns) < self.width:
            start = self.columns[-1].start + 1 if self.columns else end
            self.columns.append(Column(start, [FILLER] * height, height))
        return ngrams


class Harvest:
    """A pool that keeps what it is given."""

    def __init__(self):
        self.ngrams = []

    def add(self, key, value, match_length=0):
        self.ngrams.append((key, value))


def check_grid(window, reference, root):
    """Compare a window with the reference behind a text that ends with `root`."""
    grid = [list(level) for level in window.levels] if window.width else []
    height = len(reference.columns[0].tokens) if reference.columns else 0
    expected = [[column.tokens[level] for column in reference.columns] for level in range(height)]
    if grid:  # the root takes its place when the next tree is made
        grid[0][0] = expected[0][0] = root
    assert grid == expected
    stale = [column for column, filler in enumerate(window.stale) if filler]
    assert stale == [place for place, column in enumerate(reference.columns) if column.filler]


def model(context):
    """A token that depends on the last four."""
    return random.Random(repr(context[-4:])).randrange(VOCABULARY)


@pytest.mark.parametrize("ngram", [2, 3, 4, 5])
@pytest.mark.parametrize("seed", range(8))
def test_the_window_is_that_of_the_figures(ngram, seed):
    """Random acceptances, columns that come and go, and nodes that are not evaluated."""
    source = random.Random(f"{ngram}/{seed}")
    width = source.randrange(3, 9)
    text = [source.randrange(VOCABULARY) for _ in range(5)]
    window = LookaheadWindow(width, ngram, [FILLER], source)
    reference = Reference(width, ngram, model)
    reference.begin(text)
    num_ngrams = 0
    for _ in range(120):
        if seed % 2 and source.random() < 0.15:
            width = source.randrange(8)
            if width != window.width:
                window.resize(width)
                reference.resize(width, text)
        tree = TokenTree(text[-1])
        for _ in range(source.randrange(3)):
            tree.add_chain(0, [source.randrange(VOCABULARY) for _ in range(ngram - 1)], "ngram")
        window.place(tree)
        deepest = 99 if source.random() < 0.7 else source.randrange(ngram + width)
        behind = [[*text, *tree.path_tokens(node)] for node in range(len(tree))]
        choices = [
            model(context) if depth <= deepest else -1
            for context, depth in zip(behind, tree.depths, strict=True)
        ]
        height = len(window.levels)
        evaluated = [place + height - 1 <= deepest for place in range(width)]
        accepted = source.choice([1, 1, 1, 2, 3, ngram, ngram + width])
        harvest = Harvest()
        window.advance(choices, accepted, harvest)
        assert harvest.ngrams == reference.step(text, accepted, evaluated)
        num_ngrams += len(harvest.ngrams)
        assert all(FILLER not in value for _, value in harvest.ngrams)
        text += [source.randrange(VOCABULARY) for _ in range(accepted)]
        check_grid(window, reference, text[-1])
    assert num_ngrams > 4


def test_one_cut_column_is_stale_and_the_others_are_harvested():
    """The window moves on whatever was left out."""
    window = LookaheadWindow(3, 3, [FILLER], random.Random(0))
    harvested = []
    for cut in (None, None, 1, None, None, None):
        tree = TokenTree(0)
        window.place(tree)
        choices = list(range(10, 10 + len(tree)))
        if cut is not None:
            choices[window.nodes[-1][cut]] = -1
        harvest = Harvest()
        window.advance(choices, 1, harvest)
        harvested.append(len(harvest.ngrams))
    assert harvested == [0, 2, 1, 2, 2, 3]


@pytest.fixture
def watched(monkeypatch):
    """Every window beside its reference: a function that states the model and the limits."""
    facts = {"steps": 0, "ngrams": 0, "columns": 0, "evaluated": 0}

    def watch(choose):
        real_begin = Lookahead.begin
        real_guess = Lookahead.guess
        real_observe = Lookahead.observe

        def begin(self, sequence, context):
            real_begin(self, sequence, context)
            window = self.branches.window
            window.filler = [FILLER]
            window.levels = [[FILLER] * window.width]
            self.reference = Reference(window.width, self.ngram, choose)
            self.reference.begin(sequence.tokens)

        def guess(self, sequence):
            tree = real_guess(self, sequence)
            width = self.branches.window.width
            if width != len(self.reference.columns):
                self.reference.resize(width, sequence.tokens)
            self.text = list(sequence.tokens)
            self.remaining = sequence.remaining
            return tree

        def observe(self, sequence, tree, verdict):
            window = self.branches.window
            accepted = len(sequence.tokens) - len(self.text)
            if sequence.finish_reason is None:
                assert accepted == len(verdict.tokens)
            deepest = self.remaining - 1
            height = len(window.levels)
            within = [place + height - 1 <= deepest for place in range(window.width)]
            forwarded = [verdict.choices[node] >= 0 for node in window.nodes[-1]] if within else []
            assert forwarded == within, "cut although the token limit leaves it"
            harvest = Harvest()
            pool = self.branches.pool
            self.branches.pool = harvest
            harvest.add_text = lambda *_: None
            real_observe(self, sequence, tree, verdict)
            self.branches.pool = pool
            accepted = len(verdict.tokens)
            assert harvest.ngrams == self.reference.step(self.text, accepted, within)
            for key, value in harvest.ngrams:
                pool.add(key, value, 1)
            check_grid(window, self.reference, sequence.pending)
            facts["steps"] += 1
            facts["ngrams"] += len(harvest.ngrams)
            facts["columns"] += len(within)
            facts["evaluated"] += sum(within)

        monkeypatch.setattr(Lookahead, "begin", begin)
        monkeypatch.setattr(Lookahead, "guess", guess)
        monkeypatch.setattr(Lookahead, "observe", observe)
        return facts

    return watch


def chooser(of):
    """The model's own choice behind a list of tokens."""

    @torch.inference_mode()
    def choose(context):
        logits = of(input_ids=torch.tensor([context]), use_cache=False).logits[0, -1]
        return int(logits.argmax())

    return choose


@pytest.mark.parametrize("budget", [None, 20])
def test_the_window_of_a_text_is_that_of_the_figures(watched, budget):
    """Texts of a batch, up to their token limits."""
    on = runner("llama")
    facts = watched(chooser(on.model))
    options = {"window": 6, "ngram": 4, "guesses": 6}
    requests = [
        Request(text, SamplingParams(max_tokens=24), "lookahead", options, budget=budget)
        for text in prompts()[:3]
    ]
    finish(on, None, requests, batch_size=3)
    assert facts["ngrams"] > 25
    assert 0.5 < facts["evaluated"] / facts["columns"] < 1
    assert facts["columns"] == facts["steps"] * (6 if budget is None else 5)


def test_the_rows_of_exact_decoding_cut_no_column(watched, monkeypatch):
    """Each text of a batch has its own number of rows, and tokens that are carried take some."""
    monkeypatch.setattr(
        Exactness, "rows_at", lambda self, slots, texts=1: 16 + 6 * (slots // 6 % 3)
    )
    llm = LLM(new_model(CONFIGS["llama"]()), exact=True)
    facts = watched(chooser(llm.model))
    results = llm.generate(
        prompts()[:2], method="lookahead", sampling=SamplingParams(max_tokens=24), batch_size=2,
        budget=None, window=6, ngram=4, guesses=6,
    )  # fmt: skip
    assert all(result.exact for result in results)
    assert max(step.rows for result in results for step in result.steps[1:]) <= 28
    assert facts["ngrams"] > 10


@pytest.mark.parametrize("carried", [[], [7, 8]])
def test_exact_rows_leave_out_required_nodes_last(carried):
    tree = TokenTree(carried[-1] if carried else 0)
    guesses = tree.add_chain(0, [1, 2, 3], "ngram")
    window = tree.add_chain(0, [4, 5], "window")
    sequence = Sequence([9, 0], exact_rows=5 + len(carried))
    waiting = Carried(carried, ["ngram"] * len(carried))
    arranged = arrange(sequence, waiting, tree, set(window))
    assert len(arranged.tree) == sequence.exact_rows
    places = arranged.places
    assert [place >= 0 for place in places] == [True, True, True, False, True, True]
    placed = [*guesses[:2], *window]
    assert [arranged.tree.tokens[places[node]] for node in placed] == [1, 2, 4, 5]
    sequence.exact_rows -= 3  # not even the required ones have room
    assert len(arrange(sequence, waiting, tree, set(window)).tree) == sequence.exact_rows


def test_carried_tokens_take_rows_of_the_window():
    planner = Planner(limit=33)
    assert planner.columns(9, 4, 10) == 8
    assert planner.columns(9, 4, 10, carried=5) == 7
    assert planner.columns(9, 4, 10, carried=40) == 0


def test_a_window_wider_than_the_text_to_come_goes_on(llm):
    """Near the token limit the columns within it are still harvested."""
    prompt = llm.tokenizer.encode("class Stack:\n    def __init__(self):\n")
    forwards = {}
    for limit in (40, 90):
        sampling = SamplingParams(max_tokens=limit, ignore_eos=True)
        result = llm.generate(
            prompt, method="lookahead", sampling=sampling, budget=None, window=40,
            pool_from_prompt=False,
        )  # fmt: skip
        lengths = result.stats.accepted_lengths
        forwards[limit] = next(
            count for count in range(1, len(lengths) + 1) if sum(lengths[:count]) >= 40
        )
    assert forwards[40] <= forwards[90] + 2
