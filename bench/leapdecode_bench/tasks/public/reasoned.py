"""Sets that are answered behind worked examples: our own, in the forms of the papers;
`demonstrations.toml` has them.
"""

from typing import Any, ClassVar

from leapdecode.errors import OptionError
from leapdecode.reasoning.answers import final_choice
from leapdecode_bench.tasks.data import load_toml
from leapdecode_bench.tasks.public.base import Item, PublicSet

STOP = ("\nQuestion:",)  # where a model goes on with a question of its own


def worked(name: str, count: int) -> list[dict[str, Any]]:
    """The first `count` examples of a set; raises `OptionError` where there are not so many."""
    examples = load_toml("public/demonstrations.toml")[name]
    if count > len(examples):
        raise OptionError(f"{name} has {len(examples)} worked examples, not {count}; ask for fewer")
    return list(examples[:count])


def chains(name: str, count: int) -> str:
    """Questions with a chain of thought and the answer behind it (Wei et al., 2022)."""
    return "".join(
        f"{question(example['question'])} {example['rationale']} "
        f"So the answer is {example['answer']}.\n\n"
        for example in worked(name, count)
    )


def question(text: str) -> str:
    """A question as it stands in a prompt."""
    return f"Question: {text}\nAnswer:"


def choices(text: str, options: dict[str, str]) -> str:
    """A question with its options, by label."""
    listed = " ".join(f"({label.lower()}) {option}" for label, option in options.items())
    return question(f"{text}\nAnswer Choices: {listed}")


class Reasoned(PublicSet):
    """Asked behind worked chains of thought; a text stops where it asks a question of its own."""

    stop: ClassVar[tuple[str, ...]] = STOP

    def demonstrations(self, count: int) -> str:
        """Chains of thought."""
        return chains(self.name, count)


class Choice(Reasoned):
    """One of several options is right; `facts` has "options" by label, and the "answer"'s label."""

    def score(self, item: Item, text: str) -> float | None:
        """1 where the text names the right option, by label or by words, else 0; None where the
        right one is not known.
        """
        options, right = item.facts["options"], item.facts["answer"]
        return float(final_choice(text, list(options), options) == right.lower()) if right else None
