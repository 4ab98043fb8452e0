"""A method that gives a text up, the tokens that a glimpse shows, and an answer that is read."""

import pytest
import torch
from tiny import CONFIGS, finish, new_model

from leapdecode.core import Request, SamplingParams, Sequence, TokenTree
from leapdecode.methods.autoregressive import Autoregressive
from leapdecode.methods.base import NoMore
from leapdecode.methods.context import MethodContext
from leapdecode.methods.jacobi import FILL, Jacobi
from leapdecode.model.runner import Runner
from leapdecode.reasoning.fastcot.answering import Plan, Reply, ask_answer
from leapdecode.reasoning.fastcot.glimpse import AnswerBranch, Glimpse, QuestionJacobi, glimpse_of
from leapdecode.reasoning.fastcot.trigger import trigger_of


class ThreeSteps(Autoregressive):
    """Gives every text up after three steps."""

    def propose(self, sequence):
        if len(sequence.steps) == 3:
            raise NoMore
        return (yield from super().propose(sequence))


@pytest.fixture(scope="module")
def runner():
    return Runner(new_model(CONFIGS["llama"](), torch.float64))


def test_a_method_gives_a_text_up_and_the_others_go_on(runner):
    sampling = SamplingParams(max_tokens=8, ignore_eos=True)
    asked = [Request([1, 2, 3], sampling, ThreeSteps()), Request([1, 2, 3], sampling)]
    short, whole = finish(runner, None, asked, batch_size=2)
    assert short.finish_reason == "aborted"
    assert short.generated == whole.generated[:3]
    assert len(whole.generated) == 8


def test_a_copy_of_a_tree_has_its_own_nodes():
    tree = TokenTree(5)
    tree.add_chain(0, [1, 2], "window")
    copy = tree.copy()
    assert copy.add(1, 2, "answer") == 2  # merged, as in the original
    assert copy.add(2, 9, "answer") == 3
    assert (len(tree), len(copy)) == (3, 4)
    assert tree.child(2, 9) is None
    assert copy.ancestors[3] == 0b1111


def test_guesses_that_no_forward_updated_are_no_part_of_a_glimpse(runner):
    method, seen = Jacobi(window=4), []

    class Watched(Jacobi):
        def guess(self, sequence):
            tree = super().guess(sequence)
            seen.append((tree.sources.count(FILL), len(glimpse_of(tree)), self.updated))
            return tree

    sampling = SamplingParams(max_tokens=6, ignore_eos=True)
    (text,) = finish(runner, None, [Request([1, 2, 3], sampling, Watched(window=4))])
    (plain,) = finish(runner, None, [Request([1, 2, 3], sampling)])
    assert text.generated == plain.generated
    assert seen[0] == (method.window, 0, 0)
    assert all(fill + glimpse == 4 and glimpse == updated for fill, glimpse, updated in seen[1:])
    assert seen[1][2] > 0


def test_guesses_are_a_window_of_the_papers_buffer(runner):
    """A mutant: refills go on with the question's next token, whatever their position."""
    question = list(range(40, 53))
    windows = []

    class Watched(QuestionJacobi):
        def guess(self, sequence):
            tree = super().guess(sequence)
            windows.append((len(sequence.generated), list(self.guesses)))
            return tree

    method = Watched(window=5, initial="prompt", refill="prompt", question=question)
    choices = []

    def watch(sequence, tree, verdict, output):
        choices.append((len(sequence.generated) - len(verdict.tokens), list(verdict.choices)))

    sampling = SamplingParams(max_tokens=20, ignore_eos=True)
    finish(runner, None, [Request([1, 2, 3], sampling, method, watch=watch)])
    buffer = [question[position % len(question)] for position in range(60)]
    refilled = 0
    for (begin, window), (first, chosen) in zip(windows, choices, strict=True):
        assert begin == first
        assert window == buffer[begin : begin + 5]
        evaluated = [choice for choice in chosen if choice >= 0]  # of the root and the guesses
        buffer[begin : begin + len(evaluated)] = evaluated
        refilled += begin > 0
    assert refilled > 5


def test_the_likeliest_chain_is_a_glimpse():
    tree = TokenTree(0)
    tree.add(0, 1, "pair")
    tree.add(0, 2, "pair")
    tree.chances[1], tree.chances[2] = 0.2, 0.7
    tree.add(2, 3, "draft", draft_probability=0.1)
    tree.add(2, 4, "draft", draft_probability=0.6)
    assert [tree.tokens[node] for node in glimpse_of(tree)] == [2, 4]


@pytest.mark.parametrize("tail", [" So the", " So the answer", " so"])
def test_a_trigger_that_approximate_tokens_end_is_not_said_twice(light, tail):
    trigger, plan = trigger_of(light.tokenizer), Plan(Autoregressive(), iterations=1)

    def tokens(text):
        return light.tokenizer(text, add_special_tokens=False)["input_ids"]

    rest = trigger.words.lower().removeprefix(tail.strip().lower())
    prompt, said = tokens("How many?"), tokens(" He has 3.")
    exact, approximate = [*said, *tokens(tail)], tokens(f"{rest} 3.")
    asked = next(ask_answer(prompt, exact, approximate, plan, trigger, 500))
    assert asked.prompt == [*prompt, *said, *trigger.ids]
    assert trigger.find_start(exact, approximate) == len(said)
    assert trigger.find_start([*said, *trigger.ids], []) == len(said)
    assert trigger.find_start(said, trigger.ids) is None  # it begins in the approximate tokens
    other = tokens(" He has 3")  # without a trigger, all of it stands before one
    asked = next(ask_answer(prompt, exact, other, plan, trigger, 500))
    assert asked.prompt == [*prompt, *exact, *other, *trigger.ids]


@pytest.mark.parametrize("stop", [("\n",), ("\nQuestion:",), ("\nQuestion:", "Q")])
def test_a_rationale_is_cut_before_all_of_a_stop_string(light, stop):
    """A mutant: only the token that completes the string is left out."""
    trigger = trigger_of(light.tokenizer)
    text = " He has 3.\nHe buys 2.\nQuestion: Who?\nQuestion:"
    tokens = light.tokenizer(text, add_special_tokens=False)["input_ids"]
    line = " He has 3."
    both = " He has 3.\nHe buys 2."
    left = trigger.text(trigger.cut_at_end(tokens, stop))
    assert left.rstrip("\n") == (line if stop == ("\n",) else both)


def test_the_rest_of_a_glimpses_stop_string_ends_it(light):
    """A mutant: the approximate tokens alone are searched for stop strings."""
    trigger = trigger_of(light.tokenizer)
    method = Glimpse(Jacobi(), trigger, iterations=0, stop=("\nQuestion:",))
    ids = light.tokenizer(" He has 3.\nQuestion: Who?", add_special_tokens=False)["input_ids"]
    begun = next(n for n in range(len(ids)) if "Question" in trigger.text(ids[:n]))
    sequence = Sequence([1, 2, 3])
    method.begin(sequence, MethodContext())
    sequence.tokens += ids[:begun]
    sequence.stats.tokens = begun
    method._keep(sequence, ids[begun:])
    assert method.approximate == []


def test_an_answer_ends_with_its_line_where_the_rationale_does_not(light):
    """A rationale of several lines holds its answer, and goes on behind it."""
    trigger = trigger_of(light.tokenizer)
    plan = Plan(Autoregressive(), iterations=1, stop=("\nQuestion:",))
    assert plan.answer_stop == ("\n", "\nQuestion:")

    def tokens(text):
        return light.tokenizer(text, add_special_tokens=False)["input_ids"]

    prompt = tokens("How many?")
    exact = tokens(" He has 3.\nSo the answer is 3.\n\nHe")
    with pytest.raises(StopIteration) as ended:
        next(ask_answer(prompt, exact, [], plan, trigger, 500))
    assert ended.value.value == Reply("3.", [])
    forward = next(ask_answer(prompt, tokens(" He has 3.\nHe has"), [], plan, trigger, 500))
    assert forward.stop == plan.answer_stop


END = 9


def reader(confidence=0.0):
    return AnswerBranch([7, 8], lambda tokens: tokens[-1] == END, 4, confidence)


def read(branch, said, chance=1.0):
    """One forward in which the model would say `said` behind the trigger, whatever was guessed."""
    tree = TokenTree(0)
    branch.add(tree, [])
    choices = [0] * len(tree)
    for place, node in enumerate(branch.nodes[1:]):
        choices[node] = said[place]
    return branch.read(choices, [[(token, chance)] for token in choices])


def test_an_answer_counts_when_it_was_read_whole():
    branch = reader()
    assert [read(branch, [3, 4, END]) for _ in range(5)] == [0, 0, 1, 2, 3]
    assert branch.answer == [3, 4, END]
    assert read(branch, [3, 5, END]) == 0  # the token behind 5 is not known yet
    assert read(branch, [3, 5, END]) == 1
    assert branch.answer == [3, 5, END]


def test_an_answer_without_an_end_is_cut():
    branch = reader()
    assert [read(branch, [1, 2, 3, 4, 5]) for _ in range(5)] == [0, 0, 0, 1, 2]
    assert branch.answer == [1, 2, 3, 4]


def test_an_unlikely_answer_does_not_count():
    branch = reader(confidence=0.8)
    assert [read(branch, [3, END], 0.85) for _ in range(3)] == [0, 0, 0]
    assert [read(branch, [3, END], 0.95) for _ in range(2)] == [1, 2]


def test_a_reading_one_node_off_is_wrong(monkeypatch):
    """A mutant: reads behind the last word of the trigger but one."""
    init = AnswerBranch.__init__

    def shifted(self, trigger, *rest):
        init(self, trigger, *rest)
        self.trigger = list(trigger)[:-1]

    monkeypatch.setattr(AnswerBranch, "__init__", shifted)
    branch = reader()
    for _ in range(5):
        read(branch, [3, 4, END, 0, 0])
    assert branch.answer != [3, 4, END]
