"""What `generate` would give a model's forward beside the text.

transformers' `generate` asks a model's `prepare_inputs_for_generation` for the arguments of every
forward. Most models leave that as transformers has it. Others add an argument of their own, which
belongs to their text: a constant one goes into every forward here. One that depends on the text
cannot be known for a tree of guesses, so such models are refused by name.

Shapes: B sequences, L tokens of each.
"""

import inspect
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, GenerationMixin

from leapdecode.errors import UnsupportedModel
from leapdecode.model.cache_names import CACHE_NAMES, cache_name
from leapdecode.model.traits import forward_parameters, input_device, refusing, text_config

HOOKS = ("prepare_inputs_for_generation", "_update_model_kwargs_for_generation")
# what every forward is given anyway, compared with what the text says
USUAL = {"input_ids", "inputs_embeds", "attention_mask", "position_ids", *CACHE_NAMES}
FREE = {"use_cache", "logits_to_keep", "return_dict"}  # no logit depends on these
ABSENT = object()
BATCHES, LENGTH = (1, 2), 3  # texts of the comparison, and tokens of each before the second forward


def first_arguments(model: Any, ids: Tensor, cached: bool = True) -> dict[str, Any]:
    """What `generate` gives a model besides `ids` without padding: positions, and a cache if
    it is `cached`.
    """
    parameters = forward_parameters(model)
    arguments: dict[str, Any] = {"use_cache": cached}
    if "position_ids" in parameters:
        arguments["position_ids"] = model._prepare_position_ids_for_generation(ids, {})
    if "logits_to_keep" in parameters:
        arguments["logits_to_keep"] = 1 if cached else 0
    if cached and model._supports_default_dynamic_cache():
        name = cache_name(inspect.signature(model.prepare_inputs_for_generation).parameters)
        arguments[name] = DynamicCache(config=text_config(model))
    return arguments


def prepares_itself(model: Any) -> bool:
    """Whether the model has its own way of preparing the arguments of a forward."""
    return any(
        getattr(getattr(model, name, None), "__func__", None) is not getattr(GenerationMixin, name)
        for name in HOOKS
        if hasattr(model, name)
    )


@torch.inference_mode()
def constant_arguments(model: Any) -> dict[str, Any]:
    """The arguments that `generate` gives every forward of the model beside the usual ones.

    Raises `UnsupportedModel`, naming the argument, where one depends on the text.
    """
    if not prepares_itself(model):
        return {}
    with refusing("preparing its inputs as `generate` does fails"):
        prepared = [inputs for size in BATCHES for inputs in _two_steps(model, size)]
    names = {name for inputs in prepared for name in inputs} - USUAL - FREE
    constants = {}
    for name in sorted(names):
        first, *others = [inputs.get(name, ABSENT) for inputs in prepared]
        if not all(_equal(first, other) for other in others):
            raise UnsupportedModel(
                f"its prepare_inputs_for_generation gives forward the argument {name!r}, "
                "which depends on the text"
            )
        if first is not None:
            constants[name] = first
    return constants


def _two_steps(model: Any, size: int) -> list[dict[str, Any]]:
    """What the model's first two forwards over `size` texts would be given, in `generate`'s way.

    Raises `UnsupportedModel` where that is not the text itself.
    """
    vocabulary = model.get_input_embeddings().num_embeddings
    tokens = torch.arange(size * (LENGTH + 1), device=input_device(model)) % vocabulary
    ids_BL = tokens.view(size, LENGTH + 1)
    start_BL = ids_BL[:, :LENGTH]
    state = first_arguments(model, start_BL) | {"attention_mask": torch.ones_like(start_BL)}
    known = any(name in state for name in CACHE_NAMES)
    first = model.prepare_inputs_for_generation(
        start_BL,
        next_sequence_length=LENGTH if known else None,
        is_first_iteration=True,
        **state,
    )
    _check_usual(first, state, start_BL, LENGTH)
    output = model(**first, return_dict=True)
    state = model._update_model_kwargs_for_generation(output, state)
    second = model.prepare_inputs_for_generation(ids_BL, next_sequence_length=1, **state)
    _check_usual(second, state, ids_BL, 1)
    return [first, second]


def _check_usual(inputs: dict[str, Any], state: dict[str, Any], ids_BL: Tensor, last: int) -> None:
    """Raise `UnsupportedModel` unless `inputs` are the `last` tokens of texts without padding."""
    places = torch.arange(ids_BL.shape[1], device=ids_BL.device)[-last:]
    mask, positions = inputs.get("attention_mask"), inputs.get("position_ids")
    caches = [name for name in CACHE_NAMES if inputs.get(name) is not state.get(name)]
    right = {
        "inputs_embeds": inputs.get("inputs_embeds") is None,
        "input_ids": _equal(inputs.get("input_ids"), ids_BL[:, -last:]),
        **dict.fromkeys(caches, False),
        "attention_mask": mask is None or _equal(mask, torch.ones_like(ids_BL)),
        "position_ids": positions is None or bool((positions == places).all()),
    }
    for name, holds in right.items():
        if not holds:
            raise UnsupportedModel(
                f"its prepare_inputs_for_generation gives forward {name} of its own, "
                "which a tree of guesses has not"
            )


def _equal(first: Any, second: Any) -> bool:
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        return first.shape == second.shape and bool((first == second).all())
    if isinstance(first, Tensor) or isinstance(second, Tensor):
        return False
    return first is second or first == second
