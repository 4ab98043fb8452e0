"""Builds a reasoning tree: thoughts, evaluations, search, the final generation."""

from collections.abc import Callable, Generator
from typing import TypeVar

from leapdecode.errors import PromptError
from leapdecode.reasoning import tasks
from leapdecode.reasoning.evaluator import EVALUATORS
from leapdecode.reasoning.generation import Ask, Driver, Generated, Job, Part
from leapdecode.reasoning.search import Limits, Search, Step, registry
from leapdecode.reasoning.settings import Settings
from leapdecode.reasoning.tasks import Question, Stage, State, TreeTask
from leapdecode.reasoning.tree import Node, Path, Tree

T = TypeVar("T")


def solve(
    driver: Driver,
    task: str | TreeTask,
    question: str | Question,
    *,
    search: str | Search = registry.DEFAULT,
    thoughts: int = 3,
    breadth: int = 1,
    depth: int | None = None,
    evaluator: str = "value",
    samples: int = 1,
    on_step: Callable[[Tree], None] | None = None,
) -> Tree:
    """Search a tree of thoughts for the answer to a question.

    Args:
        driver: has texts generated; which one changes no tree.
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
    found = tasks.find(task) if isinstance(task, str) else task
    how = registry.make(search, {}) if isinstance(search, str) else search
    levels = found.depth if depth is None else depth
    settings = Settings(how, thoughts, breadth, levels, evaluator, samples)
    asked = Question(question) if isinstance(question, str) else question
    if not asked.text.strip():
        raise PromptError("the question is empty")
    growth = _Growth(driver, found, asked, settings)
    tree = growth.tree
    searching = how.run(tree.root, Limits(levels - 1, breadth))
    tree.chosen = _search(searching, growth, on_step)
    final = found.finish(growth.state(tree.chosen))
    (tree.answer,) = driver.run([asks(final, "answer", tree.chosen.path)])
    tree.score = None if asked.facts is None else found.score(asked.facts, tree.answer)
    return tree


class _Growth:
    """Expands the nodes of one tree."""

    def __init__(
        self, driver: Driver, task: TreeTask, question: Question, settings: Settings
    ) -> None:
        self.driver, self.task, self.question = driver, task, question
        self.thoughts = settings.thoughts
        self.tree = Tree(question.text, task.name, settings.as_dict(), Node())
        make = EVALUATORS[settings.evaluator]
        self.evaluator = make(task, settings.samples, self.tree.counts)

    def state(self, node: Node) -> State:
        """The state that a node stands for."""
        return State(self.question, node.thoughts())

    def expand(self, step: Step) -> None:
        """Give nodes their children, and these their values; all texts are asked for at once."""
        jobs = [self._child(node, n) for node in step.grow for n in range(self.thoughts)]
        grown = self.driver.run(jobs)
        for place, node in enumerate(step.grow):
            node.children = grown[place * self.thoughts : (place + 1) * self.thoughts]
            thoughts = {child.thought for child in node.children}
            self.tree.counts.coincidences += self.thoughts - len(thoughts)
        self.tree.counts.thoughts += len(grown)
        compared = step.beside + grown
        self.evaluator.together(self.driver, compared, [*map(self.state, compared)])

    def _child(self, parent: Node, number: int) -> Job[Node]:
        """A job that generates a thought, and what its value is read from."""
        state, path = self.state(parent), (*parent.path, number)
        thought = yield from asks(self.task.think(state), "thought", path)
        after = state.after(thought)
        node = Node(path, thought, final=self.task.is_final(after), parent=parent)
        yield from self.evaluator.alone(node, after)
        return node


def _search(
    searching: Generator[Step, None, Node],
    growth: _Growth,
    on_step: Callable[[Tree], None] | None,
) -> Node:
    """Do what a search wants until it has chosen a node."""
    while True:
        try:
            step = next(searching)
        except StopIteration as ended:
            chosen: Node = ended.value
            return chosen
        growth.expand(step)
        if on_step:
            on_step(growth.tree)


def asks(stages: Generator[Stage, Generated, T], part: Part, path: Path) -> Job[T]:
    """A job of a task's stages, whose noise is named by part, path and stage."""
    answer: Generated | None = None
    while True:
        try:
            stage = next(stages) if answer is None else stages.send(answer)
        except StopIteration as ended:
            result: T = ended.value
            return result
        stream = (part, path, stage.name)
        answer = yield Ask(stage.prompt, stream, part, stage.max_tokens, stage.stop)
