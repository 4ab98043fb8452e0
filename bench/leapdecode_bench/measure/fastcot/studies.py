"""What FastCoT's figures show, as rows: corrupted rationales (Figure 5), accuracy against
iterations (Figures 6 and 8), and what a window costs (Figure 2).
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from leapdecode.errors import OptionError
from leapdecode.reasoning.fastcot import Answerer, Plan, plan_of
from leapdecode.reasoning.fastcot.calibration import accuracies, score
from leapdecode.reasoning.fastcot.trigger import Trigger
from leapdecode_bench.measure.fastcot.contenders import KINDS
from leapdecode_bench.measure.intervals import mean_interval

if TYPE_CHECKING:
    from leapdecode.llm import LLM
    from leapdecode.reasoning.fastcot.answering import Answered
    from leapdecode.reasoning.fastcot.questions import PromptedQuestion

END, RANDOM, BOTH = "from the end", "at random", "both"
Tick = Callable[[], Any]
Row = dict[str, Any]


def row_costs_of(llm: LLM) -> list[Row]:
    """Milliseconds of a forward by rows and cached tokens; raises `OptionError` for a model that
    decodes plainly.
    """
    from leapdecode.model.cost import row_costs
    from leapdecode.model.runner import Runner

    if not isinstance(llm.runner, Runner):
        raise OptionError("this model decodes plainly, one row at a time: it has no row costs")
    return [asdict(cost) for cost in row_costs(llm.runner)]


def plans(
    contenders: Sequence[str], windows: Sequence[int | str], **rationale: Any
) -> dict[str, Plan]:
    """A plan without a bound per contender and window, by its name in a figure; `rationale` says
    how long rationales are and where they end.
    """
    by_name = {}
    for name in contenders:
        kind = KINDS[name]
        for window in windows if kind.method == "jacobi" else windows[:1]:
            several = len(windows) > 1 and kind.method == "jacobi"
            label = f"{name}, window {window}" if several else name
            by_name[label] = plan_of(kind.method, window, glimpse=kind.glimpse, **rationale)
    return by_name


def curves(
    make: Callable[[], Answerer],
    questions: Sequence[PromptedQuestion],
    by_name: Mapping[str, Plan],
    step: int,
    tick: Tick,
) -> list[Row]:
    """Accuracy against iterations, a line per plan."""
    rows = list[Row]()
    for name, plan in by_name.items():
        rows += [
            {"line": name} | asdict(point) for point in accuracies(make(), questions, plan, step)
        ]
        tick()
    return rows


def corrupt(
    tokens: Sequence[int], left: float, pattern: str, pad: int, rng: random.Random
) -> list[int]:
    """A rationale in which only a share of the tokens is left; the others are a pad token."""
    num_left = round(left * len(tokens))
    positions = range(len(tokens))
    lost_positions = (
        positions[num_left:] if pattern == END else rng.sample(positions, len(tokens) - num_left)
    )
    lost = set(lost_positions)
    return [pad if position in lost else token for position, token in enumerate(tokens)]


def corrupted(
    make: Callable[[], Answerer],
    questions: Sequence[PromptedQuestion],
    plan: Plan,
    shares: Sequence[float],
    seeds: int,
    tick: Tick,
) -> list[Row]:
    """Accuracy behind corrupted rationales, by the share that is left and the pattern.

    Each seed draws one of the two patterns, both equally likely. Equal rationales are asked once.
    """
    answerer = make()
    answered = answerer.run([question.prompt for question in questions], plan)
    prompts = answerer.encode([question.prompt for question in questions])
    scores = dict[tuple[float, str, int], list[float]]()
    for number, (question, prompt) in enumerate(zip(questions, prompts, strict=True)):
        whole = rationale_of(answered[number], answerer.trigger, plan)
        drawn = drawings(whole, shares, seeds, number, pad_of(answerer.trigger))
        distinct = [list(tokens) for tokens in dict.fromkeys(map(tuple, drawn.values()))]
        replies = make().ask([(prompt, tokens, []) for tokens in distinct], plan)
        right = {
            tuple(tokens): score(question, reply.answer)
            for tokens, reply in zip(distinct, replies, strict=True)
        }
        for (share, pattern, _), tokens in drawn.items():
            scores.setdefault((share, pattern, number), []).append(right[tuple(tokens)])
        tick()
    return [
        row
        for share in shares
        for pattern in (BOTH, END, RANDOM)
        if (row := _row(scores, share, pattern)) is not None
    ]


def drawings(
    whole: Sequence[int], shares: Sequence[float], seeds: int, number: int, pad: int
) -> dict[tuple[float, str, int], list[int]]:
    """Corrupted rationales of a question by share, pattern and seed."""
    drawn = {}
    for share in shares:
        for seed in range(seeds):
            rng = random.Random(f"corrupted/{number}/{share}/{seed}")
            pattern = rng.choice((END, RANDOM))
            drawn[share, pattern, seed] = corrupt(whole, share, pattern, pad, rng)
    return drawn


def rationale_of(answered: Answered, trigger: Trigger, plan: Plan) -> list[int]:
    """The tokens of a whole rationale up to its end, or to the trigger in it."""
    tokens = trigger.cut_at_end(answered.exact, plan.stop)
    return tokens[: trigger.find(tokens)]


def pad_of(trigger: Trigger) -> int:
    """The id that stands for what is gone."""
    for name in ("pad_token_id", "eos_token_id"):
        token_id = getattr(trigger.tokenizer, name, None)
        if token_id is not None:
            return int(token_id)
    return 0


def _row(
    scores: Mapping[tuple[float, str, int], list[float]], share: float, pattern: str
) -> Row | None:
    """The mean over questions at one share; None where no seed drew the pattern."""
    by_question = dict[int, list[float]]()
    for (left, drawn, number), values in scores.items():
        if left == share and pattern in (BOTH, drawn):
            by_question.setdefault(number, []).extend(values)
    if not by_question:
        return None
    means = [statistics.mean(values) for values in by_question.values()]
    accuracy, low, high = mean_interval(means)
    return {
        "left": share,
        "pattern": pattern,
        "accuracy": accuracy,
        "interval": [low, high],
        "answers": sum(len(values) for values in by_question.values()),
    }
