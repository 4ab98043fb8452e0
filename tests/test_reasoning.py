"""Trees of the embedded pair: equal seeds, equal trees, in whatever order texts are generated."""

import json
import re
from dataclasses import replace

import pytest

from leapdecode import SamplingParams
from leapdecode.errors import OptionError, PromptError, ResultsError, UnknownName
from leapdecode.reasoning import Ask, Executor, Tree, solve
from leapdecode.reasoning.evaluator import Value
from leapdecode.reasoning.tasks import Question, State, find, names
from leapdecode.reasoning.tree import Counts, Node
from leapdecode_bench.tasks.math import LAST

QUESTION = "Tom has 3 bags with 8 pens each. He loses 5 pens. How many pens are left?"
SMALL = {"thoughts": 2, "breadth": 2, "depth": 3}


class Backwards(Executor):
    """The last job first, each to its end before the next: another order than `Executor`'s."""

    def run(self, jobs):
        return [super(Backwards, self).run([job])[0] for job in reversed(jobs)][::-1]


class Counting(Executor):
    """Keeps what it was asked for, call by call."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.asked, self.calls = [], []

    def run(self, jobs):
        self.calls.append(len(jobs))
        return super().run(jobs)

    def _run(self, ask):
        self.asked.append(ask)
        return super()._run(ask)


def drawn(llm, driver=Executor, seed=0):
    return driver(llm, SamplingParams(temperature=1.0, seed=seed))


@pytest.fixture(scope="module")
def driver(light):
    return drawn(light, Counting)


@pytest.fixture(scope="module")
def tree(driver):
    return solve(driver, "math", QUESTION, **SMALL)


def test_another_order_of_texts_gives_an_equal_tree(light, tree):
    assert solve(drawn(light, Backwards), "math", QUESTION, **SMALL).to_json() == tree.to_json()


def test_another_seed_gives_another_tree(light, tree):
    other = solve(drawn(light, seed=1), "math", QUESTION, **SMALL)
    assert [node.thought for node in other.root.nodes()] != [
        node.thought for node in tree.root.nodes()
    ]


def test_a_level_is_one_call_and_the_answer_another(driver, tree):
    grown = {node.depth for node in tree.root.nodes() if node.children}
    assert driver.calls[0] == 2
    assert len(driver.calls) == len(grown) + 1
    assert driver.calls[-1] == 1


def test_streams_name_thoughts_by_path_and_values_by_sample(driver, tree):
    streams = [ask.stream for ask in driver.asked]
    thoughts = [stream for stream in streams if stream[0] == "thought"]
    paths = {node.path for node in tree.root.nodes()} - {()}
    assert {path for _, path, _ in thoughts} == paths
    assert {stage for _, _, stage in thoughts} == {"sub_question", "sub_answer"}
    assert len(set(thoughts)) == len(thoughts) == 2 * len(paths)
    assert {stream for stream in streams if stream[0] == "value"} == {("value", 0)}
    parts = {ask.part for ask in driver.asked}
    assert parts - {"answer"} == {"thought", "evaluation"}


def test_no_prompt_is_evaluated_twice(driver, tree):
    prompts = [ask.prompt for ask in driver.asked if ask.part == "evaluation"]
    assert len(set(prompts)) == len(prompts)
    assert len(prompts) == tree.counts.evaluations - tree.counts.cache_hits
    assert tree.counts.evaluations == tree.counts.thoughts == len(list(tree.root.nodes())) - 1


def test_values_are_those_of_the_texts(tree):
    for node in tree.root.nodes():
        if node.path:
            concluded = re.search(r"So the number is (\d+)\.$", node.explanation)
            assert node.value == (concluded and int(concluded.group(1)))


def test_equal_thoughts_are_counted_and_evaluated_once(llm):
    driver = Counting(llm, SamplingParams())  # greedy
    found = solve(driver, "math", QUESTION, thoughts=3, depth=2, samples=2)
    assert found.counts == Counts(3, 6, coincidences=2, unparsed=0, cache_hits=4)
    assert [ask.stream for ask in driver.asked if ask.part == "evaluation"] == [
        ("value", 0),
        ("value", 1),
    ]
    assert len({node.value for node in found.root.children}) == 1


def test_the_mean_of_the_samples_is_the_value(light):
    """Of three texts one has no value: it is counted, and the mean is that of the others."""
    counts = Counts()
    evaluator = Value(find("math"), 3, counts)
    node, state = Node((0,), "Why?\nSo."), State(Question("Q"), ("Why?\nSo.",))
    (stage,) = [find("math").evaluation(state)]
    evaluator.texts[stage.prompt] = ["7", "10", "7 or 8"]
    assert list(evaluator.evaluation(node, state)) == []
    evaluator.assign(Executor(light, SamplingParams()), [node], [state])
    assert node.value == 8.5
    assert node.explanation == "7\n\n10\n\n7 or 8"
    assert (counts.evaluations, counts.unparsed) == (3, 1)


def test_votes_are_one_prompt_with_all_candidates(llm):
    """The embedded pair cannot vote: its votes are counted as unreadable, and ties go by path."""
    driver = drawn(llm, Counting)
    found = solve(driver, "math", QUESTION, depth=2, thoughts=2, evaluator="vote", samples=2)
    votes = [ask for ask in driver.asked if ask.part == "evaluation"]
    assert [ask.stream for ask in votes] == [("vote", 0), ("vote", 1)]
    assert votes[0].prompt == votes[1].prompt
    assert all(node.thought in votes[0].prompt for node in found.root.children)
    assert (found.counts.evaluations, found.counts.unparsed) == (2, 2)
    assert {node.value for node in found.root.children} == {None}
    assert found.chosen.path == (0,)
    assert found.counts.undecided == 1
    assert found.to_json()["counts"]["undecided"] == 1


def test_a_tree_survives_json(tree):
    document = json.loads(json.dumps(tree.to_json()))
    again = Tree.from_json(document)
    assert again.to_json() == tree.to_json() == document
    assert again.chosen.path == tree.chosen.path
    assert again.chosen.thoughts() == tree.chosen.thoughts()
    assert [node.parent and node.parent.path for node in again.root.nodes()] == [
        node.parent and node.parent.path for node in tree.root.nodes()
    ]


def test_what_is_no_tree_is_refused(tree):
    whole = tree.to_json()
    damaged = [
        whole | change
        for change in ({"chosen": [9]}, {"counts": {"thought": 1}}, {"root": {"thought": ""}})
    ]
    for document in ({}, {"schema": 1}, [], None, *damaged):
        with pytest.raises(ResultsError, match=r"^no tree: "):
            Tree.from_json(document)
    with pytest.raises(ResultsError, match="a tree of schema 2, not 1"):
        Tree.from_json(whole | {"schema": 2})


def test_a_typed_question_has_no_score_and_a_held_out_one_has(llm, tree):
    assert tree.score is None
    question = find("math").questions(1)[0]
    found = solve(drawn(llm), "math", question, thoughts=1, depth=1)
    assert found.score == find("math").score(question.facts, found.answer)
    assert found.chosen is found.root
    assert found.counts.thoughts == 0


def test_wrong_arguments_are_refused(light):
    driver = Executor(light, SamplingParams())
    for name in ("thoughts", "breadth", "depth", "samples"):
        with pytest.raises(OptionError, match=f"{name}=0"):
            solve(driver, "math", QUESTION, **{name: 0})
    with pytest.raises(UnknownName, match="did you mean 'value'"):
        solve(driver, "math", QUESTION, evaluator="values")
    with pytest.raises(UnknownName, match="unknown task"):
        solve(driver, "maths", QUESTION)
    with pytest.raises(OptionError, match="votes compare"):
        solve(driver, "math", QUESTION, search="mcts", evaluator="vote")
    with pytest.raises(PromptError, match="empty"):
        solve(driver, "math", " \n")


def test_serial_asks_every_job_in_turn(light):
    asked = []

    class Told(Executor):
        def _run(self, ask):
            asked.append(ask.stream)
            return super()._run(ask)

    def job(name, count):
        texts = []
        for number in range(count):
            ask = Ask("x", (name, number), "thought", 2)
            texts.append((yield ask))
        return name, texts

    sampling = SamplingParams(temperature=1.0)
    found = Told(light, sampling).run([job("a", 2), job("b", 0), job("c", 3)])
    streams = [("a", 0), ("c", 0), ("a", 1), ("c", 1), ("c", 2)]
    assert asked == streams
    assert [(name, len(texts)) for name, texts in found] == [("a", 2), ("b", 0), ("c", 3)]
    for name, texts in found:
        for number, text in enumerate(texts):
            plain = light.generate(
                "x", sampling=replace(sampling, max_tokens=2), stream=(name, number)
            )
            assert (text.text, text.num_tokens) == (plain.text, 2)
            assert text.finish_reason == "length"


def test_texts_end_before_their_stop_strings(llm):
    def job():
        return (yield Ask(PROMPT, "s", "answer", 40, (" the",)))

    (text,) = Executor(llm, SamplingParams()).run([job()])
    assert text.finish_reason == "stop"
    assert " the" not in text.text


PROMPT = "Write a coherent passage of 4 short paragraphs."


def replies(task, stages, *texts):
    """What a task makes of texts that a model might write; and what it asked for."""
    from leapdecode.reasoning import Generated

    asked, given = [], iter(texts)
    try:
        stage = next(stages)
        while True:
            asked.append(stage)
            stage = stages.send(Generated(next(given), "stop", 1))
    except StopIteration as ended:
        return ended.value, asked


def test_a_math_thought_is_a_question_and_its_answer():
    task, state = find("math"), State(Question("Q?"))
    thought, asked = replies(task, task.think(state), " Why? ", " 3 * 8 = 24. ")
    assert thought == "Why?\n3 * 8 = 24."
    assert [stage.name for stage in asked] == ["sub_question", "sub_answer"]
    assert "sub-question is: Why?" in asked[1].prompt
    after = state.after(thought)
    assert "Sub-question: Why?\nSub-answer: 3 * 8 = 24." in next(task.think(after)).prompt
    assert not task.is_final(after)
    value = task.evaluation(after)
    assert "the sub-question is: Why?, the sub-answer is: 3 * 8 = 24." in value.prompt
    assert value.max_tokens == 128


def test_math_ends_with_the_last_question():
    task, state = find("math"), State(Question("Q?"), ("Why?\n3 * 8 = 24.",))
    final = state.after(f"{LAST}how many?\n24 - 5 = 19. So the answer is 19.")
    assert task.is_final(final)
    answer, asked = replies(task, task.finish(final))
    assert (answer, asked) == ("24 - 5 = 19. So the answer is 19.", [])
    assert task.score({"answer": 19}, answer) == 1
    assert task.score({"answer": 24}, answer) == 0
    answer, asked = replies(task, task.finish(state), " how many?", " So the answer is 19.")
    assert answer == "So the answer is 19."
    assert asked[0].prompt.endswith(f"The sub-question is: {LAST.strip()}")
    assert f"the sub-question is: {LAST}how many?" in asked[1].prompt


def test_models_that_were_not_trained_on_the_prompts_are_told_how_to_answer():
    """Their sub-answers may be several lines, and sub-questions stand among other words."""
    task = find("math").with_instructions()
    state = State(Question("Q?"), ("Why?\n3 * 8 = 24.",))
    reply = 'Sure! The next one:\n\n**Sub-question 2:** "How many are left?"\n'
    steps = " 24 - 5 = 19.\nThat is all.\n\nSo the answer is 19."
    thought, stages = replies(task, task.think(state), reply, steps)
    assert thought == f"How many are left?\n{steps.strip()}"
    assert "\n" not in {stop for stage in stages for stop in stage.stop}
    assert 'End with "So the answer is" and the number.' in stages[1].prompt
    assert "Sub-answer: 3 * 8 = 24." in stages[1].prompt
    assert stages[1].examples[-1][1].endswith("So the answer is 63.")
    value = task.evaluation(state.after(thought))
    assert "24 - 5 = 19.\nThat is all." in value.prompt
    assert [task.parse(reply) for _, reply in value.examples] == [9, 10, 2]
    answer, stages = replies(task, task.finish(state), " how many?\nMore.", "Tom has 19 pens.")
    assert stages[0].prompt.endswith(stages[0].opening)
    assert LAST.strip() in stages[0].opening
    assert task.score({"answer": 19}, answer) == 1
    assert find("math").instructs is False


def test_blocksworld_shows_good_and_bad_actions():
    task = find("blocksworld").with_instructions()
    value = task.evaluation(State(Question("Two blocks."), ("Note.\nWhy.\npick up the red block",)))
    assert [task.parse(reply) for _, reply in value.examples] == [10, 1, 10, 1]
    assert value.examples[0][0].startswith("I am playing with a set of blocks")
    (action,) = [next(task.think(State(Question("Two blocks."))))]
    assert len(action.examples) == 4
    replies_of_models = {
        "The action is a good one, because red is clear.": 10,
        "**Bad**: the hand is full.": 1,
        "It is not a good action.": 1,
        "It is not bad.": None,
        "Is it good? I do not know.": None,
        "There are good and bad reasons.": None,
    }
    assert {text: task.parse(text) for text in replies_of_models} == replies_of_models


def test_a_passage_is_written_to_the_best_plan():
    task = find("passage")
    (question,) = task.questions(1)
    text = "\nPlan:\n1. a\nPassage:\nOne.\n\nTwo.\n"
    thought, asked = replies(task, task.think(State(question)), text)
    assert all(f"{n}. {end}" in asked[0].prompt for n, end in enumerate(question.facts["ends"], 1))
    state = State(question, (thought,))
    assert "One.\n\nTwo." in task.evaluation(state).prompt
    assert "Plan" not in task.evaluation(state).prompt
    written = "\n\n".join(question.facts["ends"])
    answer, asked = replies(task, task.finish(state), written)
    assert asked[0].prompt.endswith("The output is:\nPlan:\n1. a\nPassage:\n")
    assert answer == f"Plan:\n1. a\nPassage:\n{written}"
    assert task.score(question.facts, answer) == 1
    assert task.score(question.facts, answer[:-3]) == 0


def test_blocksworld_is_scored_by_the_simulator():
    task = find("blocksworld")
    facts = {"towers": [["red"], ["blue"]], "hand": None, "goal": [["red", "blue"]]}
    state = State(Question("Two blocks.", facts), ("Note.\nWhy.\npick up the red block",))
    assert not task.is_final(state)
    final = state.after("Note.\nWhy.\nstack the red block on top of the blue block")
    assert task.is_final(final)
    assert not task.is_final(State(Question("Two blocks."), final.thoughts))
    answer, asked = replies(task, task.finish(final))
    assert asked == []
    assert answer == "pick up the red block\nstack the red block on top of the blue block"
    assert task.score(facts, answer) == 1
    answer, asked = replies(task, task.finish(state), "Note.\nI do not know.")
    assert answer == "pick up the red block\n?"
    assert task.score(facts, answer) == 0
    assert task.score(facts, "stack the red block on top of the blue block") == 0
    assert [task.parse(text) for text in (" good. It helps", " bad.", "good or bad", "")] == [
        10,
        1,
        None,
        None,
    ]


@pytest.mark.parametrize("name", names())
def test_questions_are_the_same_for_the_same_seed(name):
    task = find(name)
    assert task.questions(2) == task.questions(3)[:2]
    assert task.questions(2) != task.questions(2, seed=1)
    assert all(question.facts and question.text for question in task.questions(2))
