"""FastCoT: exact parts, answers that are read, calibration, comparisons and the paper's studies."""

import json
import random
from dataclasses import replace

import pytest
from stated import state_row_costs

from leapdecode.core import ForwardEvent, Sequence, TokenTree
from leapdecode.errors import OptionError, PromptError, TaskError, UnknownName
from leapdecode.methods import make
from leapdecode.methods.context import MethodContext
from leapdecode.methods.jacobi import Jacobi
from leapdecode.reasoning.fastcot import Answerer, Plan, find, plan_of
from leapdecode.reasoning.fastcot.calibration import (
    Calibration,
    Point,
    accuracies,
    calibrate,
    check_loss,
    least_bound,
)
from leapdecode.reasoning.fastcot.glimpse import AnswerBranch, Glimpse, QuestionJacobi
from leapdecode.reasoning.fastcot.questions import PromptedQuestion
from leapdecode.reasoning.fastcot.trigger import trigger_of
from leapdecode_bench.measure.fastcot import page as pages
from leapdecode_bench.measure.fastcot.compare import Comparison, split_questions
from leapdecode_bench.measure.fastcot.contenders import (
    DEFAULT,
    ContenderSpec,
    contenders,
    parse_contender,
)
from leapdecode_bench.measure.fastcot.page import document, write
from leapdecode_bench.measure.fastcot.records import PARTS, BatchRecord, Reply, rows_of, store
from leapdecode_bench.measure.fastcot.studies import END, RANDOM, corrupt, corrupted, curves, plans
from leapdecode_bench.measure.fastcot.summary import rows
from leapdecode_bench.measure.presets import STUDIES, find_study

SHORT = {"rationale_tokens": 20, "answer_tokens": 6}
PLAIN = Plan(make("autoregressive", {}), **SHORT)


@pytest.fixture(scope="module")
def questions():
    return find("math").questions(3, seed=3, shots=1)


@pytest.fixture(scope="module")
def prompts(questions):
    return [question.prompt for question in questions]


@pytest.fixture(scope="module")
def plain(light, prompts):
    return Answerer(light, 3).run(prompts, PLAIN)


@pytest.fixture
def steep(light):
    """Rows that cost so much that no method comes to a text's end within a few forwards."""
    state_row_costs(light, {1: 1, 8: 3, 128: 60})
    yield
    light.shared.forget()


# the method and its texts


@pytest.mark.parametrize("method", ["jacobi", "lookahead", "auto", "multi_candidate"])
def test_an_exact_part_is_what_plain_decoding_begins_with(light, prompts, plain, method, steep):
    whole = Answerer(light, 3).run(prompts, plan_of(method, record=True, **SHORT))
    assert [one.exact for one in whole] == [one.exact for one in plain]
    assert [one.answer for one in whole] == [one.answer for one in plain]
    cut = Answerer(light, 3).run(prompts, plan_of(method, iterations=4, **SHORT))
    for short, one in zip(cut, plain, strict=True):
        assert short.ended == "iterations"
        assert short.iterations == 4 <= len(short.exact) < len(one.exact)
        assert short.exact == one.exact[: len(short.exact)]


def test_a_batch_answers_as_one_question_does(light, prompts):
    for plan in (plan_of(iterations=5, **SHORT), plan_of(unchanged=2, **SHORT)):
        together = Answerer(light, 8).run(prompts, plan)
        alone = [Answerer(light, 1).run([one], plan)[0] for one in prompts]
        assert together == alone
        if plan.iterations:
            assert any(one.approximate for one in together)


def agree(light, prompts):
    """Whether answers that were read are those that are given when they are asked for."""
    answerer = Answerer(light, 3)
    done = answerer.run(prompts, plan_of(unchanged=1, rationale_tokens=60))
    early = [number for number, one in enumerate(done) if one.ended == "answer"]
    assert early
    ids = answerer.encode(prompts)
    asks = [(ids[number], done[number].exact, done[number].approximate) for number in early]
    said = answerer.ask(asks, plan_of(answer_tokens=8))
    return [one.answer for one in said] == [done[number].answer for number in early]


def test_an_answer_that_is_read_is_the_answer_that_is_given(light, prompts):
    assert agree(light, prompts)


def test_reading_behind_another_node_is_noticed(light, prompts, monkeypatch):
    """A mutant: the choices are those of the node before."""
    read = AnswerBranch.read

    def off(self, choices, likeliest=()):
        return read(self, [choices[max(node - 1, 0)] for node in range(len(choices))], likeliest)

    monkeypatch.setattr(AnswerBranch, "read", off)
    assert not agree(light, prompts)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (" He has 3 bags.", " He has 3 bags."),
        (" He has 3. So the answer is 3.", " He has 3."),
        (" He has 3.\nQuestion: Who?", " He has 3."),
        (" so THE answer is 3", ""),
        (" He has 3 bags. Who is he? Ann.", " He has 3 bags."),
    ],
)
def test_a_glimpse_is_cut_where_the_text_ends_or_the_answer_begins(light, text, left):
    trigger = trigger_of(light.tokenizer)
    method = Glimpse(make("jacobi", {}), trigger, iterations=0, stop=("\n", " Who is"))
    sequence = Sequence([1, 2, 3], end_tokens=light.end_tokens)
    method.begin(sequence, MethodContext())
    ids = light.tokenizer(text, add_special_tokens=False)["input_ids"]
    method._keep(sequence, ids)
    assert trigger.text(method.approximate) == left
    method._keep(sequence, [*ids[:1], min(light.end_tokens), *ids])
    assert method.approximate in (ids[:1], [])


def test_first_guesses_are_the_question(light):
    prompt = "Question: Who?\nAnswer: Ann.\n\nQuestion: How many pens?\nAnswer:"
    seen = []

    class Watched(QuestionJacobi):
        def guess(self, sequence):
            seen.append(list(self.guesses))
            return super().guess(sequence)

    plan = plan_of(window=16, rationale_tokens=1)
    watched = Watched(**{one.name: getattr(plan.method, one.name) for one in Jacobi.options()})
    answerer = Answerer(light)
    answerer.run([prompt], replace(plan, method=watched))
    question = answerer.encode(["Question: How many pens?\nAnswer:"])[0]
    assert len(question) < 16
    assert seen[0] == (question * 2)[:16]


def test_iterations_of_0_ask_at_once(light, prompts, plain):
    (found,) = Answerer(light).run(prompts[:1], plan_of(iterations=0, **SHORT))
    assert (found.exact, found.approximate, found.iterations) == ([], [], 0)
    assert found.ended == "iterations"
    assert found.answer_iterations > 0


@pytest.mark.parametrize("method", ["autoregressive", "jacobi", "auto"])
def test_a_rationale_ends_behind_its_answer_though_its_line_goes_on(light, prompts, method):
    plan = plan_of(method, stop=("no such text",), answer_tokens=3)
    (answered,) = Answerer(light).run(prompts[:1], plan)
    trigger = trigger_of(light.tokenizer)
    sizes = range(len(answered.exact) + 1)
    said = next(size for size in sizes if trigger.find(answered.exact[:size]) is not None)
    assert len(answered.exact) == said + 3
    assert answered.ended == "stop"
    assert answered.answer_length == 0  # it is not asked for once more


def test_what_does_not_fit_the_context_is_told_with_its_numbers(light, prompts):
    context = light.runner.max_length
    with pytest.raises(PromptError, match=f"the window {context}, .* holds {context}; .*--window"):
        Answerer(light).run(prompts[:1], plan_of(window=context))
    with pytest.raises(PromptError, match="--shots"):
        Answerer(light).run(["word " * context], PLAIN)
    long = prompts[0]
    size = len(Answerer(light).encode([long])[0])
    room = context - size
    words = long + " so" * (room - 60)
    (found,) = Answerer(light).run([words], replace(PLAIN, rationale_tokens=256))
    assert found.answer_iterations  # the rationale left room for trigger and answer


def test_plans_say_what_is_wrong_with_them():
    for wrong in ({"iterations": -1}, {"unchanged": -1}, {"confidence": 2}, {"answer_tokens": 0}):
        with pytest.raises(OptionError, match=next(iter(wrong))):
            plan_of(**wrong)
    with pytest.raises(UnknownName, match="did you mean 'jacobi'"):
        plan_of("jacoby")


# calibration


def point(iterations, accuracy):
    return Point(iterations, accuracy, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("accuracy", "max_loss", "bound"),
    [
        ([0.2, 0.9, 0.5, 0.88, 0.9], 0.03, 3),  # good once is not good from there on
        ([0.2, 0.9, 0.5, 0.88, 0.9], 0.5, 2 - 1),
        ([0.2, 0.5, 0.9, 0.95, 0.9], 0.0, 2),  # better than the whole is no loss
        ([0.9, 0.9, 0.9], 0.0, 0),
        ([0.1, 0.2, 0.3], 0.0, 2),
        ([0.87, 0.9], 0.03, 0),  # up to rounding
    ],
)
def test_a_bound_holds_for_every_larger_one(accuracy, max_loss, bound):
    curve = [point(*pair) for pair in enumerate(accuracy)]
    assert least_bound(curve, max_loss).iterations == bound


def test_answers_of_a_curve_are_those_at_its_bounds(light, prompts):
    told = []

    def marked(number):
        return lambda answer: float(told.append((number, answer)) or 0.0)

    questions = [
        PromptedQuestion("Q", prompt, marked(number)) for number, prompt in enumerate(prompts)
    ]
    plan = plan_of(**SHORT)
    curve = accuracies(Answerer(light, 3), questions, plan, step=3)
    at = [one.iterations for one in curve]
    assert at[:3] == [0, 3, 6]
    assert curve[-1].ended == 1
    assert curve[0].ended == 0
    for place in (0, 1, len(curve) - 1):
        run = Answerer(light, 3).run(prompts, plan.at(at[place]))
        found = [answer or None for _, answer in told[3 * place : 3 * place + 3]]
        assert found == [one.answer for one in run]
        assert curve[place].exact * 3 == sum(len(one.exact) for one in run)
    blind = accuracies(Answerer(light, 3), questions, plan_of(glimpse=False, **SHORT), step=6)
    assert all(one.approximate == 0 for one in blind)
    assert any(one.approximate > 0 for one in curve)


@pytest.mark.parametrize("task", ["math", "choice"])
def test_questions_to_calibrate_by_are_not_compared_on(task):
    first, rest = split_questions(find(task), 7, 9, 0, 2)
    assert (len(first), len(rest)) == (7, 9)
    assert len({one.prompt for one in first} | {one.prompt for one in rest}) == 16
    assert [one.prompt for one in first] == [
        one.prompt for one in find(task).questions(7, 0, 2)
    ]  # those of the command `calibrate`


def lines_of(path, *rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(path)


def test_equal_questions_of_a_file_are_asked_once(tmp_path):
    rows = [{"question": f"How many are {n % 6}?", "answer": str(n % 6)} for n in range(12)]
    path = lines_of(tmp_path / "few.jsonl", *rows)
    first, rest = split_questions(find(path), 2, 4, 0, 0)
    assert not {one.question for one in first} & {one.question for one in rest}
    with pytest.raises(TaskError, match="has 6 questions beside 0 worked examples, not 7"):
        split_questions(find(path), 3, 4, 0, 0)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"question": "Who?"}', 'line 2: "answer"'),
        ('{"question": " ", "answer": "1"}', 'line 2: "question"'),
        ('{"question": "Who?", "answer": 1}', 'line 2: "answer"'),
        ('{"question": "Who?", "answer": "a", "options": ["x"]}', 'line 2: "options"'),
        ("[1]", "line 2 is no JSON object"),
        ("{", "line 2 is no JSON"),
    ],
)
def test_a_wrong_line_of_a_file_is_named(tmp_path, line, told):
    path = tmp_path / "own.jsonl"
    path.write_text('{"question": "How many?", "answer": "2"}\n' + line + "\n")
    with pytest.raises(TaskError, match=told):
        find(str(path))


def test_a_file_scores_labels_numbers_and_words(tmp_path):
    path = lines_of(
        tmp_path / "own.jsonl",
        {"question": "1+1?", "answer": "One and one. #### 2"},
        {"question": "Which?", "answer": "b", "options": {"a": "the park", "b": "the sea"}},
        {"question": "Who?", "answer": "Ann Lee"},
    )
    source = find(path)
    by_question = {one.question: one for one in source.questions(3, 0, 0)}
    assert by_question["1+1?"].score("2.") == 1 > by_question["1+1?"].score("3")
    choice = by_question["Which? (a) the park (b) the sea"]
    assert choice.score("(b)") == choice.score("the sea") == 1 > choice.score("a")
    assert by_question["Who?"].score("ann lee.") == 1 > by_question["Who?"].score("Lee")
    (shown,) = source.questions(1, 0, 1)  # the first line is a worked example
    assert shown.prompt.startswith("Question: 1+1?\nAnswer: One and one. So the answer is 2.\n")


def test_calibration_needs_scores_and_shares(light, questions):
    with pytest.raises(OptionError, match="scored"):
        calibrate(Answerer(light), [PromptedQuestion("Q", questions[0].prompt)], plan_of(), 0.03)
    for wrong in (-0.1, 3):
        with pytest.raises(OptionError, match="3 points"):
            check_loss(wrong)
    with pytest.raises(OptionError, match="step=0"):
        accuracies(Answerer(light), questions, plan_of(), 0)


# comparisons


def written(name):
    kind, method, pairs = parse_contender(name)
    assert not pairs
    return ContenderSpec(name, kind, method)


@pytest.fixture(scope="module")
def compared(light, questions):
    every = contenders([written(name) for name in DEFAULT], [3, 6])
    every = [replace(one, plan=replace(one.plan, **SHORT)) for one in every]
    work = Comparison(light, every, questions, batch_size=2)
    skipped = (every[0].key, 1)
    return every, work, [record for found in work.run({skipped}) for record in found], skipped


def test_every_contender_answers_every_batch(compared, plain):
    every, work, records, skipped = compared
    assert work.batches == [[0, 1], [2]]
    keys = {(one.key, batch) for one in every for batch in (0, 1)}
    assert {record.key for record in records} == keys - {skipped}
    assert set(work.keys) == keys
    orders = {
        batch: [record.contender for record in records if record.batch == batch] for batch in (0, 1)
    }
    assert orders[0] != [one.key for one in every]
    for one in records:
        assert set(one.times) == {*PARTS, "other"}
        assert sum(one.times.values()) == pytest.approx(one.seconds)
        assert one.times["inference"] > 0
        for reply in one.replies:
            assert reply.exact == plain[reply.question].exact[: len(reply.exact)]


def test_rows_say_what_was_lost_and_saved(compared):
    every, _, records, _ = compared
    found = rows(records, [one.key for one in every])
    by_label = {(row["method"], row["bound"]): row for row in found}
    cot, cut = by_label["cot", None], by_label["fastcot-without-byproducts", 6]
    assert (cot["loss"], cot["saved_time"], cot["rationale_equal"]) == (0, 0, True)
    assert cot["iterations_saved"] == 0  # a token a forward
    assert cut["iterations"] <= 3 * (6 + SHORT["answer_tokens"])
    assert cut["approximate"] == 0 < by_label["fastcot", 6]["approximate"]
    assert by_label["fastcot-exact-part", 6]["approximate"] == 0
    assert (
        by_label["fastcot", 6]["tokens"] - by_label["fastcot", 6]["iterations"]
        == (by_label["fastcot", 6]["iterations_saved"])
    )
    early = next(row for row in found if row["method"] == "fastcot-early")
    assert (early["bound"], early["unchanged"]) == (None, 1)
    assert early["iterations_saved"] >= 0
    assert by_label["cot-inexact", None]["rationale_equal"] is None
    assert all(row["rationale_equal"] for row in found if row["method"] != "cot-inexact")
    assert 0 < by_label["fastcot-early", None]["padded_rows"] < 1


def batch(method, number, seconds, scores, exact, bound=None, ended="stop"):
    replies = [
        Reply(place, "1", score, ended, 4, 1, exact, 0, 3, 2) for place, score in enumerate(scores)
    ]
    times = dict.fromkeys((*PARTS, "other"), seconds / 6)
    return BatchRecord(method, bound, 0, 0.0, number, seconds, times, replies)


def test_rows_of_made_up_records_are_worked_by_hand():
    records = [
        batch("cot", 0, 4.0, [1, 1], [1, 2, 3, 4]),
        batch("cot", 1, 2.0, [1, 0], [1, 2, 3, 4]),
        batch("fastcot", 0, 3.0, [1, 0], [1, 2, 3], 4, "iterations"),
        batch("fastcot", 1, 1.0, [0, 0], [1, 2, 3], 4, "iterations"),
    ]
    keys = [("cot", None, 0, 0.0), ("fastcot", 4, 0, 0.0)]
    _, row = rows(records, keys)
    assert (row["accuracy"], row["loss"], row["saved_time"]) == (0.25, 0.5, 0.375)
    assert (row["saved_seconds"], row["saved_of_totals"]) == (2.0, pytest.approx(1 / 3))
    assert row["saved_over_fastest"] == pytest.approx(1 / 3)
    inexact = [batch("cot-inexact", number, 2.5, [1, 1], [9]) for number in (0, 1)]
    plain, faster, cut = rows([*records, *inexact], [keys[0], inexact[0].contender, keys[1]])
    assert cut["saved_over_fastest"] == pytest.approx(1 - 4 / 5)
    assert plain["saved_over_fastest"] == pytest.approx(1 - 6 / 5)
    assert (plain["rationale_equal"], faster["rationale_equal"]) == (True, None)
    assert row["saved_time_interval"] == [0.25, 0.5]
    assert row["loss_interval"][0] < 0.5 < row["loss_interval"][1]
    assert (row["tokens"], row["iterations"], row["iterations_saved"]) == (20, 20, 0)
    assert row["time_composition"]["cache"] == pytest.approx(4 / 6)
    assert row["rationale_equal"] is True
    other = batch("fastcot", 1, 1.0, [0, 0], [1, 9], 4, "iterations")
    assert rows([*records[:3], other], keys)[1]["rationale_equal"] is False
    short = batch("cot:auto", 0, 1.0, [1, 1], [1, 2, 3])  # ended by itself, before cot did
    assert rows([*records, short], [*keys, short.contender])[2]["rationale_equal"] is False


def test_padding_is_what_brings_a_batch_to_one_width():
    events = [
        ForwardEvent("target", [0, 1], [3, 8], False, 0.1),
        ForwardEvent("draft", [0, 1], [1, 2], False, 0.1),
        ForwardEvent("target", [0, 1], [40, 9], True, 0.1),
    ]
    assert rows_of(events) == (16, 5)


def test_plain_decoding_without_exactness_has_a_model_of_its_own(light, questions):
    fast, slow = contenders([written("cot-inexact"), written("cot")], [])
    work = Comparison(light, [slow, fast], questions)
    assert work.llm_of(slow) is light
    assert not work.llm_of(fast).exact
    assert work.llm_of(fast).model is light.model
    with pytest.raises(OptionError, match="takes no method"):
        parse_contender("cot-inexact:jacobi")


def test_records_survive_a_file(compared, tmp_path):
    records = compared[2]
    kept = store(tmp_path)
    kept.add(records)
    path = tmp_path / "records.jsonl"
    path.write_text(path.read_text() + path.read_text()[:40])
    assert kept.read() == records


def test_files_of_a_comparison(compared, tmp_path):
    every, _, records, _ = compared
    found = Calibration(3, 0.0, 0.03, 0.5, 2, [point(0, 0.1), point(3, 0.5)])
    run = {"model": "m", "task": "math"}
    report = document(records, [one.key for one in every], {"jacobi": found}, run)
    assert Calibration.parse(report["calibrations"]["jacobi"]) == found
    assert Calibration.parse(report["calibration"]) == found
    write(tmp_path, report)
    assert json.loads((tmp_path / "compare.json").read_text()) == report
    page = (tmp_path / "report.html").read_text()
    assert page.count("<svg") == 2
    assert "jacobi: 3 iterations, by 2 other questions" in page
    assert "fastcot, 6 iterations" in (tmp_path / "report.md").read_text()
    for name in ("saved_time", "iterations"):
        assert (tmp_path / "plots" / f"{name}.png").stat().st_size > 1000


def test_contenders_are_named_by_kind_and_method():
    assert parse_contender("fastcot:lookahead:window=5")[1:] == ("lookahead", ["window=5"])
    with pytest.raises(UnknownName, match="did you mean 'fastcot'"):
        parse_contender("fastcott")
    with pytest.raises(UnknownName, match="did you mean 'lookahead'"):
        parse_contender("cot:lookahed")
    with pytest.raises(OptionError, match="takes no method"):
        parse_contender("fastcot-without-byproducts:auto")
    swept = contenders([written("fastcot-early")], [5], [1, 2], [0.0, 0.9])
    assert [one.key[2:] for one in swept] == [(1, 0.0), (1, 0.9), (2, 0.0), (2, 0.9)]
    assert swept[3].label == "fastcot-early, 2 readings, from 0.9 on"


def test_each_method_has_its_own_bound():
    names = ["fastcot", "fastcot-without-byproducts", "fastcot:lookahead", "fastcot-exact-part"]
    specs = [written(name) for name in names]
    assert [spec.bound_of for spec in specs] == ["jacobi", "jacobi", "lookahead", "jacobi"]
    assert ContenderSpec("fastcot:jacobi", specs[0].kind, "jacobi", {"window": 5}).bound_of == (
        "jacobi:window=5"
    )
    bounded = contenders(specs, {"jacobi": [9], "lookahead": [3]})
    assert [one.plan.iterations for one in bounded] == [9, 9, 3, 9]


# studies


def test_a_corrupted_rationale_keeps_a_share_of_its_tokens():
    tokens = list(range(1, 11))
    assert corrupt(tokens, 0.4, END, 0, random.Random(0)) == [1, 2, 3, 4, 0, 0, 0, 0, 0, 0]
    drawn = corrupt(tokens, 0.4, RANDOM, 0, random.Random(0))
    assert drawn.count(0) == 6
    assert all(token in (0, place) for place, token in enumerate(drawn, 1))
    assert drawn[:4] != [1, 2, 3, 4]
    assert corrupt(tokens, 1.0, RANDOM, 0, random.Random(0)) == tokens


def test_corrupted_rationales_are_asked_by_share_and_pattern(light, questions):
    ticks = []
    found = corrupted(
        lambda: Answerer(light, 8), questions[:2], PLAIN, [0.5, 1.0], 4, lambda: ticks.append(1)
    )
    assert len(ticks) == 2
    by_pattern = {(row["left"], row["pattern"]): row for row in found}
    both = by_pattern[0.5, "both"]
    assert both["answers"] == 8 == sum(by_pattern[0.5, name]["answers"] for name in (END, RANDOM))


def test_curves_have_a_line_per_contender_and_window(light, questions, tmp_path):
    every = plans(["fastcot", "fastcot-without-byproducts"], [4, 8])
    assert list(every) == ["fastcot, window 4", "fastcot, window 8", "fastcot-without-byproducts"]
    few = {name: replace(plan, **SHORT) for name, plan in list(every.items())[1:]}
    points = curves(lambda: Answerer(light, 3), questions[:2], few, 8, lambda: None)
    assert {row["line"] for row in points} == set(few)
    report = pages.study_document("fastcot-figure6", "math", points, {"model": "m"})
    pages.write_study(tmp_path, report, "curves", "Figure 6")
    assert (tmp_path / "report.html").read_text().count("<svg") == 1
    assert (tmp_path / "plots" / "curves.png").stat().st_size > 1000


def test_presets_are_studies():
    for name in STUDIES:
        study = find_study(name)
        assert study["summary"]
        assert study["study"] in (*pages.STUDIES, "comparison")
    with pytest.raises(UnknownName, match="did you mean 'fastcot-figure"):
        find_study("fastcot-figure7")


def test_a_glimpse_looks_only_where_it_is_wanted(light):
    trigger = trigger_of(light.tokenizer)
    whole = plan_of(**SHORT)
    held = replace(whole, budget="auto")  # as a request is, so that nothing has to lift it
    assert held.decoder(trigger, lambda _: False) == held.method
    assert isinstance(whole.at(3).decoder(trigger, lambda _: False), Glimpse)
    sequence = Sequence([1, 2, 3])
    kept = []
    for looking in ({"record": True}, {"iterations": 4}):
        method = Glimpse(make("jacobi", {"window": 2}), trigger, **looking)
        method._keep = lambda *given: kept.append(given)
        method.begin(sequence, MethodContext())
        with pytest.raises(StopIteration) as ended:
            next(method.propose(sequence))
        assert isinstance(ended.value.value, TokenTree)
    assert len(kept) == 1  # before the bound nobody looks
