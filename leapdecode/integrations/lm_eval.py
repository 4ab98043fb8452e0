"""leapdecode as a model of the lm-evaluation-harness: `--model leapdecode`.

`python -m leapdecode.lm_eval run --model leapdecode --model_args pretrained=...,method=auto ...`

Everything but generation is that of the harness's model `hf`, of which this is a subclass: loading,
batching, tokens, log-likelihoods, caching. Greedy texts are those of `hf` up to near-ties of the
dtype, in float64 all of them. Sampled texts have its distribution, not its draws.
"""

from typing import Any

from lm_eval.api.registry import register_model
from lm_eval.models.huggingface import HFLM
from torch import Tensor
from transformers import StoppingCriteria, StoppingCriteriaList

from leapdecode.errors import OptionError
from leapdecode.hf import decoding
from leapdecode.methods.registry import DEFAULT, find
from leapdecode.model.embedded import NAME
from leapdecode.model.load import load_model, resolve

NAMED = "leapdecode"
MORE = 2  # tokens that are looked at beyond those that a stop string itself has
REFUSED = {
    "mixed_precision_dtype": "load the model in that dtype: dtype=bfloat16",
    "parallelize": "the model must be on one device; leave it out",
    "tp_plan": "the model must be on one device; leave it out",
}


@register_model(NAMED)
class LeapdecodeLM(HFLM):  # type: ignore[misc]
    """The harness's `hf`, whose texts are decoded by a method of leapdecode.

    Args:
        pretrained: as `hf` takes it; "demo" is the demo pair.
        method: a name that `leapdecode methods` lists.
        draft: a name or folder of a draft model, for methods that take one.
        fallback: False refuses what cannot verify token trees, instead of decoding it plainly.
        arguments: further ones of `hf`, and options of the method by name.

    Raises `OptionError` for what cannot be decoded in trees, and for an encoder-decoder.
    """

    def __init__(
        self,
        pretrained: Any,
        method: str = DEFAULT,
        draft: str | None = None,
        fallback: str | bool | None = None,
        **arguments: Any,
    ) -> None:
        for name, way_out in REFUSED.items():
            if arguments.get(name):
                raise OptionError(f"{name}={arguments[name]!r} is not possible here; {way_out}")
        known = {field.name for field in find(method).options()}
        options = {name: arguments.pop(name) for name in known & arguments.keys()}
        draft = NAME if draft is None and pretrained == NAME else draft
        if pretrained == NAME:
            pretrained = str(resolve(NAME, "target"))
        super().__init__(pretrained, **arguments)
        if self.backend != "causal":
            raise OptionError(f"{pretrained} is no causal language model; use --model hf")
        trusted = bool(arguments.get("trust_remote_code"))
        model = None if draft is None else self._load_draft(draft, trusted)
        self.decoding = decoding(method, draft=model, fallback=fallback, **options)

    def _load_draft(self, draft: str, trusted: bool) -> Any:
        """The draft on the model's device, in its dtype."""
        folder = resolve(draft, "draft")
        return load_model(folder, str(self.device), self.model.dtype, "auto", trusted)

    def _model_generate(
        self, context: Tensor, max_length: int, stop: list[str], **arguments: Any
    ) -> Tensor:
        """Ids [batch, length] of the prompts `context`, padded on the left, with what follows them.

        A text ends behind a stop string, which the harness cuts off; `hf` goes on until all texts
        of the batch have ended.
        """
        if not arguments.get("do_sample") and not arguments.get("temperature"):
            arguments |= {"do_sample": False}
            arguments.pop("temperature", None)
        stops = StopStrings(self.tokenizer, stop, context.shape[1])
        ids: Tensor = self.decoding.generate(
            self.model,
            context,
            max_length=max_length,
            stopping_criteria=StoppingCriteriaList([stops]),
            pad_token_id=self.tokenizer.pad_token_id,
            **arguments,
        )
        return ids


class StopStrings(StoppingCriteria):  # type: ignore[misc]
    """Ends a text whose last tokens spell a stop string, as the harness looks for them.

    Unlike the harness's own criteria it keeps nothing from call to call, so that it can be asked
    about the texts of a batch one at a time.

    Args:
        tokenizer: spells tokens, special ones included.
        stop: the strings.
        start: how many tokens the prompts have, padding included.
    """

    def __init__(self, tokenizer: Any, stop: list[str], start: int) -> None:
        self.tokenizer, self.start = tokenizer, start
        self.sizes = {
            text: len(tokenizer.encode(text, add_special_tokens=False)) + MORE
            for text in stop
            if text
        }

    def __call__(self, input_ids: Tensor, scores: Any, **kwargs: Any) -> Tensor:
        """Whether each text [batch] of `input_ids` [batch, length] has ended."""
        ended = [self._ends(ids) for ids in input_ids[:, self.start :].tolist()]
        return input_ids.new_tensor(ended).bool()

    def _ends(self, ids: list[int]) -> bool:
        endings = {size: self.tokenizer.decode(ids[-size:]) for size in set(self.sizes.values())}
        return any(text in endings[size] for text, size in self.sizes.items())
