"""The search of a reasoning tree (SEED, Algorithm 2 and appendix D).

    root := the question
    repeat
        the search chooses states                                 `Search.run`
        generate `thoughts` next thoughts of each                 `TreeTask.think`
        give every new state a value, or votes                    `Evaluator`
    until the search has chosen the state to answer from
    answer := the final generation from that state                `TreeTask.finish`

All texts of a step are asked for at once; a driver says how they share the models.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from leapdecode.errors import OptionError, UnknownName, with_suggestions
from leapdecode.reasoning import search as searches
from leapdecode.reasoning import tasks
from leapdecode.reasoning.evaluator import EVALUATORS
from leapdecode.reasoning.jobs import Ask, Driver, Generated, Job, Part
from leapdecode.reasoning.search import Limits, Search, Step
from leapdecode.reasoning.tasks import Question, Stages, State, TreeTask
from leapdecode.reasoning.tree import Node, Path, Tree

T = TypeVar("T")


@dataclass(frozen=True)
class SearchSettings:
    """The settings of a search; raises `OptionError` or `UnknownName`.

    Attributes:
        search: a search with its options.
        thoughts: thoughts generated for a state (n in SEED).
        breadth: states kept of a level, or expanded at once (b).
        depth: T: T - 1 levels of thoughts, then the final generation.
        evaluator: "value" or "vote".
        samples: values or votes that are drawn each time.
    """

    search: Search
    thoughts: int
    breadth: int
    depth: int
    evaluator: str
    samples: int

    def __post_init__(self) -> None:
        for name in ("thoughts", "breadth", "depth", "samples"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name}={getattr(self, name)} must be at least 1")
        if self.evaluator not in EVALUATORS:
            message = f"unknown evaluator {self.evaluator!r}"
            raise UnknownName(with_suggestions(message, self.evaluator, EVALUATORS))
        if self.evaluator == "vote" and not self.search.takes_votes:
            raise OptionError(
                f"votes compare the states of one level, but {self.search.name} compares states of "
                "several; use evaluator value, or search breadth_first"
            )

    def as_dict(self) -> dict[str, Any]:
        """The settings as a tree's document has them."""
        return {
            "search": self.search.name,
            "search_options": asdict(self.search),
            "thoughts": self.thoughts,
            "breadth": self.breadth,
            "depth": self.depth,
            "evaluator": self.evaluator,
            "samples": self.samples,
        }


def solve(
    driver: Driver,
    task: str | TreeTask,
    question: str | Question,
    *,
    search: str | Search = searches.DEFAULT,
    thoughts: int = 3,
    breadth: int = 1,
    depth: int | None = None,
    evaluator: str = "value",
    samples: int = 1,
    on_step: Callable[[Tree], None] | None = None,
) -> Tree:
    """Search a tree of thoughts for the answer to a question.

    Args:
        driver: generates the texts; which driver it is changes no tree.
        task: a task's name, the name of a TOML file, or a task.
        question: a text, whose answer then has no score, or one of `task.questions`.
        search: a search's name, or a search with its options.
        thoughts: thoughts generated for a state (n in SEED).
        breadth: states kept of a level, or expanded at once (b).
        depth: T: T - 1 levels of thoughts, then the final generation; the task's own by default.
        evaluator: "value": each state by itself; "vote": all states of a level in one prompt.
        samples: values of a state, whose mean counts, or votes on a level.
        on_step: called with the tree whenever it has grown.

    Raises:
        UnknownName, OptionError: no such task, search or evaluator; a number below 1.
        TaskError: a TOML file that describes no task.
        PromptError: an empty question, or a prompt that does not fit the model.
    """
    task = prompted(driver, tasks.find(task) if isinstance(task, str) else task)
    search = searches.make(search, {}) if isinstance(search, str) else search
    depth = task.depth if depth is None else depth
    settings = SearchSettings(search, thoughts, breadth, depth, evaluator, samples)
    question = Question(question) if isinstance(question, str) else question
    growth = _Growth(driver, task, question, settings)
    tree = growth.tree
    steps = search.run(tree.root, Limits(depth - 1, breadth))
    while tree.chosen is None:
        try:
            step = next(steps)
        except StopIteration as ended:
            tree.chosen = ended.value
        else:
            growth.expand(step)
            if on_step:
                on_step(tree)
    answer = task.finish(growth.state(tree.chosen))
    (tree.answer,) = driver.run([job_of(answer, "answer", tree.chosen.path)])
    tree.score = None if question.facts is None else task.score(question.facts, tree.answer)
    return tree


def prompted(driver: Driver, task: TreeTask) -> TreeTask:
    """The task with the prompts that the driver's model needs."""
    return task.with_instructions() if driver.instructs else task


class _Growth:
    """Expands the nodes of one tree."""

    def __init__(
        self, driver: Driver, task: TreeTask, question: Question, settings: SearchSettings
    ) -> None:
        self.driver, self.task, self.question = driver, task, question
        self.thoughts = settings.thoughts
        self.tree = Tree(question.text, task.name, settings.as_dict(), Node())
        evaluator = EVALUATORS[settings.evaluator]
        self.evaluator = evaluator(task, settings.samples, self.tree.counts)

    def state(self, node: Node) -> State:
        """The state that a node stands for."""
        return State(self.question, node.thoughts())

    def expand(self, step: Step) -> None:
        """Give nodes their children, and these their values."""
        jobs = [self._child(node, number) for node in step.grow for number in range(self.thoughts)]
        children = self.driver.run(jobs)
        counts = self.tree.counts
        for index, node in enumerate(step.grow):
            node.children = children[index * self.thoughts : (index + 1) * self.thoughts]
            counts.coincidences += self.thoughts - len({child.thought for child in node.children})
        counts.thoughts += len(children)
        compared = step.beside + children
        self.evaluator.assign(self.driver, compared, [self.state(node) for node in compared])
        counts.undecided += all(node.value is None for node in compared)

    def _child(self, parent: Node, number: int) -> Job[Node]:
        """A job that generates a thought and its evaluation."""
        state, path = self.state(parent), (*parent.path, number)
        thought = yield from job_of(self.task.think(state), "thought", path)
        state = state.after(thought)
        node = Node(path, thought, final=self.task.is_final(state), parent=parent)
        yield from self.evaluator.evaluation(node, state)
        return node


def job_of(stages: Stages[T], part: Part, path: Path) -> Job[T]:
    """A job of a task's stages, whose noise is named by part, path and stage."""
    generated: Generated | None = None
    while True:
        try:
            stage = stages.send(generated)  # type: ignore[arg-type]  # None starts a generator
        except StopIteration as ended:
            result: T = ended.value
            return result
        stream = (part, path, stage.name)
        generated = yield Ask(
            stage.prompt, stream, part, stage.max_tokens, stage.stop, opening=stage.opening,
            examples=stage.examples,
        )  # fmt: skip
