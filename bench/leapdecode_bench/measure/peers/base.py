"""What a peer is: another engine, which the bench lets decode the same prompts."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, ClassVar

from leapdecode.core import SamplingParams
from leapdecode.errors import OptionError
from leapdecode.llm import LLM
from leapdecode.llm.detokenize import completion_text
from leapdecode.model.half_weights import as_transformers
from leapdecode_bench.measure.computing import computing
from leapdecode_bench.measure.contenders import Contender, Outcome

# not in any peer's texts
LEFT_OUT = ("presence_penalty", "frequency_penalty", "logit_bias", "stop")


class Peer(ABC):
    """An engine that `--peers` names: one file beside this one.

    It needs a name and `contenders`. `package` and `module` are what pip installs and what Python
    imports, where they are no dependencies of this library; `takes` is what has to stand behind
    `NAME=`.
    """

    name: ClassVar[str]
    package: ClassVar[str] = ""
    module: ClassVar[str] = ""
    takes: ClassVar[str] = ""

    def check(self, argument: str) -> None:
        """Raise `OptionError` for what is known before a model is loaded: a package that is
        missing, an argument that is not taken.
        """
        if self.module and find_spec(self.module) is None:
            raise OptionError(f"--peers {self.name} needs a package: pip install {self.package}")
        if argument and not self.takes:
            raise OptionError(f"--peers {self.name} takes no argument; leave {argument!r} out")
        if self.takes and not argument:
            raise OptionError(f"--peers {self.name} needs {self.takes}")

    @abstractmethod
    def contenders(self, llm: LLM, argument: str) -> list[Contender]:
        """Its modes on the models of `llm`; `argument` is what stands behind `NAME=`."""


@dataclass
class PeerContender(ABC):
    """One mode of a peer. It decodes each prompt alone: many peers take one text at a time, and
    padding would change others' rows.

    Attributes:
        takes_processors: whether logits processors are applied.
        follows_the_model: whether it applies the rules of the model's generation config itself.
        samples: whether it decodes with a temperature, too.
        left_out: sampling parameters that it does not have.
        same_weights: whether it runs the weights of `llm`, so that its texts are compared with
            plain decoding's.
    """

    llm: LLM
    mode: str
    options: dict[str, Any] = field(default_factory=dict)
    learns: ClassVar[bool] = False
    takes_processors: ClassVar[bool] = False
    follows_the_model: ClassVar[bool] = False
    samples: ClassVar[bool] = False
    same_weights: ClassVar[bool] = True
    left_out: ClassVar[tuple[str, ...]] = LEFT_OUT

    @property
    def same_model(self) -> bool:
        """Whether its texts should be those of `llm`: the same weights, in the same numbers."""
        ways = computing(self.llm)
        return self.same_weights and not (ways.quantize or ways.half)

    @property
    def target(self) -> Any:
        """The target as transformers has it."""
        return as_transformers(self.llm.model)

    @property
    def draft(self) -> Any:
        """The draft as transformers has it; None without one."""
        return None if self.llm.draft is None else as_transformers(self.llm.draft)

    @property
    @abstractmethod
    def label(self) -> str: ...

    @abstractmethod
    def _one(self, prompt: list[int], sampling: SamplingParams) -> Outcome: ...

    def decode(
        self, prompts: Sequence[list[int]], sampling: SamplingParams, batch_size: int
    ) -> list[Outcome]:
        """Decode a unit of prompts, one after the other."""
        outcomes = []
        for prompt in prompts:
            defaults = self.llm.model_defaults
            filled = defaults.fill(sampling, len(prompt), with_rules=not self.follows_the_model)
            self.check(filled)
            outcomes.append(self._one(prompt, filled))
        return outcomes

    def check(self, sampling: SamplingParams) -> None:
        """Raise `OptionError` for what the peer would leave out without a word."""
        usual = SamplingParams()
        left_out = [
            name for name in self.left_out if getattr(sampling, name) != getattr(usual, name)
        ]
        if sampling.logits_processors and not self.takes_processors:
            left_out.append("logits processor")
        if not sampling.greedy and not self.samples:
            left_out.append("temperature")
        if left_out:
            raise OptionError(
                f"{self.label} takes no {left_out[0]}; leave it out, or leave out the peers"
            )
        if sampling.n > 1:
            raise OptionError(
                f"{self.label} gives one text per prompt, so n={sampling.n} must be 1"
            )

    def ends(self, sampling: SamplingParams) -> list[int]:
        """The tokens that end a text."""
        end_tokens = frozenset() if sampling.ignore_eos else self.llm.end_tokens
        return sorted(end_tokens | set(sampling.stop_token_ids))

    def outcome(self, prompt: list[int], token_ids: list[int], counts: dict[str, Any]) -> Outcome:
        """A text of this contender, decoded to words where there is a tokenizer."""
        tokenizer = self.llm.tokenizer
        text = completion_text(tokenizer, prompt, token_ids) if tokenizer else ""
        return Outcome(token_ids, text, counts, compared=self.same_model)


def counts_of(
    forwards: int, rows: int, seconds: float, draft: Sequence[int] = (0, 0)
) -> dict[str, Any]:
    """A peer's counts under the names of `core.Stats`; all its forwards give tokens."""
    return {
        "target_forwards": forwards,
        "prefill_forwards": 0,
        "target_rows": rows,
        "draft_forwards": draft[0],
        "draft_rows": draft[1],
        "decode_seconds": seconds,
    }
