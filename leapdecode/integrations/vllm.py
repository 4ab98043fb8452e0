"""Guesses of leapdecode inside vLLM: proposers of the kind that it calls `custom_class`.

    from leapdecode.integrations.vllm import speculative_config

    llm = vllm.LLM(model, speculative_config=speculative_config("suffix", num_tokens=8))

vLLM verifies the guesses, so its text stays its own. It takes one chain per text, and tells a
proposer nothing but tokens: neither logits nor which request a text is of. So recycling knows what
the model chose behind the same one or two tokens, in any request, and nothing else.

Only the first of vLLM's two model runners has a place for such classes. The second one has no
registry for proposers; vLLM falls back to the first where it can, see `speculative_config`.
"""

import importlib.util
from typing import Any, ClassVar

from leapdecode.errors import OptionError, UnknownName, UnsupportedEngine, with_suggestions
from leapdecode.integrations.texts import Shared, Text
from leapdecode.methods.registry import make

NUM_TOKENS = 8  # guesses per step and text
PLACE = "vllm.v1.spec_decode.custom_class_proposer"


class Proposer:
    """A method of leapdecode in the form that vLLM loads; subclasses name the method.

    Args:
        vllm_config: vLLM's configuration, of which two numbers are read:
            `speculative_config.num_speculative_tokens` and `model_config.max_model_len`.

    Attributes:
        method: its name.
        options: its options. A subclass of your own may set others.
        store: whether texts that have ended are guessed from.
    """

    method: ClassVar[str]
    options: ClassVar[dict[str, Any]] = {}
    store: ClassVar[bool] = True

    def __init__(self, vllm_config: Any) -> None:
        self.num_tokens: int = vllm_config.speculative_config.num_speculative_tokens
        self.max_length: int = vllm_config.model_config.max_model_len
        self.shared = Shared(make(self.method, self.options), self.store)
        self.texts: dict[int, Text] = {}  # by row of the last step

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        """vLLM calls it where other proposers load a draft; there is none."""

    def propose(
        self,
        sampled_token_ids: list[list[int]],
        num_tokens_no_spec: Any,
        token_ids_cpu: Any,
        slot_mappings: Any = None,
    ) -> list[list[int]]:
        """The guesses behind every text of the batch, called once a step by vLLM's first runner.

        Args:
            sampled_token_ids: per row the tokens of this step, the accepted guesses and the one
                behind them; empty where a prompt is not complete yet.
            num_tokens_no_spec: [rows] lengths of the texts, these tokens included.
            token_ids_cpu: [rows, longest] token ids of the texts.
            slot_mappings: not used.

        Returns:
            Per row at most `num_speculative_tokens` token ids; none where nothing is likely, and
            none that would stand beyond the model's context.
        """
        previous = self.texts
        self.texts = {}
        chains: list[list[int]] = []
        for row, sampled in enumerate(sampled_token_ids):
            length = int(num_tokens_no_spec[row])
            room = min(self.num_tokens, self.max_length - length - 1)
            if not sampled or room < 1:
                chains.append([])
                continue
            tokens = token_ids_cpu[row, :length].tolist()
            before = length - len(sampled)
            known = tokens[:before]
            text = self.texts[row] = _take(previous, row, known) or Text(self.shared, known)
            chains.append(text.chain(tokens[before:], room))
        for text in previous.values():
            self.shared.end(text.sequence)
        return chains


class PromptLookup(Proposer):
    """What followed the last time the text ended like this (Saxena 2023)."""

    method = "prompt_lookup"


class Suffix(Proposer):
    """Suffix matches of any length in the text and in earlier ones (SuffixDecoding)."""

    method = "suffix"


class Recycling(Proposer):
    """What the model chose behind the same one or two tokens (Token Recycling)."""

    method = "token_recycling"


class Hybrid(Proposer):
    """All sources together."""

    method = "hybrid"


PROPOSERS: dict[str, type[Proposer]] = {
    proposer.method: proposer for proposer in (PromptLookup, Suffix, Recycling, Hybrid)
}


def speculative_config(method: str = "hybrid", num_tokens: int = NUM_TOKENS) -> dict[str, Any]:
    """What `vllm.LLM(speculative_config=...)` takes for a proposer of this file.

    Args:
        method: "prompt_lookup", "suffix", "token_recycling" or "hybrid".
        num_tokens: most guesses per step and text.

    Raises:
        UnknownName: another method.
        OptionError: `num_tokens` is not a whole number of at least 1.
        UnsupportedEngine: no vLLM here, one without `custom_class`, or one that is told to use its
            second model runner.
    """
    if method not in PROPOSERS:
        message = f"no proposer {method!r} for vLLM"
        raise UnknownName(with_suggestions(message, str(method), PROPOSERS))
    if not isinstance(num_tokens, int) or isinstance(num_tokens, bool) or num_tokens < 1:
        raise OptionError(f"num_tokens={num_tokens!r} must be a whole number of at least 1")
    check_runner()
    return {
        "method": "custom_class",
        "model": f"{__name__}.{PROPOSERS[method].__name__}",
        "num_speculative_tokens": num_tokens,
    }


def check_runner() -> None:
    """Raise `UnsupportedEngine`, in one sentence, where vLLM has no place for a proposer."""
    if importlib.util.find_spec("vllm") is None:
        raise UnsupportedEngine("vLLM is not installed here; install it with: pip install vllm")
    import vllm
    from vllm import envs

    try:
        registry = importlib.util.find_spec(PLACE)
    except ModuleNotFoundError:  # of a folder above it
        registry = None
    if registry is None:
        raise UnsupportedEngine(
            f"vLLM {vllm.__version__} has no registry for proposers any more (custom_class); use a "
            "version that has it (0.32 does), or vLLM's own suffix mode"
        )
    if envs.VLLM_USE_V2_MODEL_RUNNER:
        raise UnsupportedEngine(
            "vLLM's second model runner has no registry for proposers; unset "
            "VLLM_USE_V2_MODEL_RUNNER, so that vLLM takes its first one"
        )


def _take(texts: dict[int, Text], row: int, known: list[int]) -> Text | None:
    """Take out the text that is `known`: most likely that of the same row.

    vLLM moves texts between rows as others leave. A text that left out steps is not found, and
    read anew.
    """
    for number in (row, *texts):
        text = texts.get(number)
        if text is not None and text.sequence.tokens == known:
            return texts.pop(number)
    return None
