"""State evaluators (Tree of Thoughts, Yao et al., 2023): a value for each state, or votes.

Values that cannot be read are counted, never guessed. The noise of an evaluation is named by the
number of the sample alone, so equal prompts have equal texts.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence

from leapdecode.reasoning.answers import HIGHEST, parse_vote
from leapdecode.reasoning.jobs import Ask, Driver, Job
from leapdecode.reasoning.tasks.base import VALUE_TOKENS, State, TreeTask
from leapdecode.reasoning.tree import Counts, Node, Path


class Evaluator(ABC):
    """Gives values to the nodes of one tree."""

    def __init__(self, task: TreeTask, samples: int, counts: Counts) -> None:
        self.task, self.samples, self.counts = task, samples, counts

    @abstractmethod
    def evaluation(self, node: Node, state: State) -> Job[None]:
        """Generate the evaluation of a new node; runs in the job that generated its thought."""

    @abstractmethod
    def assign(self, driver: Driver, nodes: Sequence[Node], states: Sequence[State]) -> None:
        """Give values to nodes that are compared; all their jobs have ended."""


class Value(Evaluator):
    """The mean of some sampled values.

    Equal prompts of a tree are evaluated once: the first job that comes to a prompt has it
    generated, and the values are given out when all jobs have ended.
    """

    def __init__(self, task: TreeTask, samples: int, counts: Counts) -> None:
        super().__init__(task, samples, counts)
        self.texts: dict[str, list[str]] = {}  # by prompt
        self.prompts: dict[Path, str] = {}  # of nodes that have no value yet

    def evaluation(self, node: Node, state: State) -> Job[None]:
        """Have the evaluation of a node's prompt generated, unless a node before it has."""
        stage = self.task.evaluation(state)
        self.prompts[node.path] = stage.prompt
        if stage.prompt in self.texts:
            return
        texts = self.texts[stage.prompt] = []
        for number in range(self.samples):
            evaluation = yield Ask(
                stage.prompt, ("value", number), "evaluation", stage.max_tokens, stage.stop,
                opening=stage.opening, examples=stage.examples,
            )  # fmt: skip
            texts.append(evaluation.text)

    def assign(self, driver: Driver, nodes: Sequence[Node], states: Sequence[State]) -> None:
        """Give each new node the mean of the values that its texts have."""
        for node in nodes:
            if node.path not in self.prompts:
                continue  # a node of an earlier level keeps its value
            texts = self.texts[self.prompts.pop(node.path)]
            values = [value for value in map(self.task.parse, texts) if value is not None]
            node.value = sum(values) / len(values) if values else None
            node.explanation = "\n\n".join(text.strip() for text in texts)
            self.counts.evaluations += self.samples
            self.counts.unparsed += self.samples - len(values)
        self.counts.cache_hits = self.counts.evaluations - self.samples * len(self.texts)


class Vote(Evaluator):
    """One prompt shows all candidates, and sampled votes choose among them.

    A value is ten times the share of the votes. Where none can be read there are no values.
    """

    def evaluation(self, node: Node, state: State) -> Job[None]:
        """Nothing: votes compare all candidates."""
        yield from ()

    def assign(self, driver: Driver, nodes: Sequence[Node], states: Sequence[State]) -> None:
        """Let votes choose among the nodes."""
        prompt = vote_prompt(states)
        texts = driver.run([_vote(prompt, number) for number in range(self.samples)])
        votes = [parse_vote(text, len(nodes)) for text in texts]
        tally = Counter(vote for vote in votes if vote is not None)
        for number, node in enumerate(nodes, 1):
            node.value = float(HIGHEST) * tally[number] / self.samples if tally else None
            node.explanation = "\n\n".join(text.strip() for text in texts)
        self.counts.evaluations += self.samples
        self.counts.unparsed += votes.count(None)


def _vote(prompt: str, number: int) -> Job[str]:
    vote = yield Ask(prompt, ("vote", number), "evaluation", 2 * VALUE_TOKENS)
    return vote.text


EVALUATORS: dict[str, type[Evaluator]] = {"value": Value, "vote": Vote}


def vote_prompt(states: Sequence[State]) -> str:
    """Asks which of some states of one question is the best."""
    candidates = "\n\n".join(
        f"Candidate {number}:\n" + "\n".join(state.thoughts)
        for number, state in enumerate(states, 1)
    )
    return (
        f"Given a question: {states[0].question.text}\n"
        f"There are {len(states)} candidates for the steps of its answer.\n\n{candidates}\n\n"
        'Compare the candidates, then at the last line conclude "The best candidate is [n]", where '
        "[n] is the number of a candidate.\nThe comparison is:"
    )
