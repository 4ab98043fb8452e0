"""The name under which the installed transformers hands a cache around.

Up to 5.23 forwards and outputs call it `past_key_values`, those of Mamba `cache_params`. From 5.24
on all call it `cache`, and the older names only work through a shim that warns and costs time in
every layer. A model with code of its own may still take the older name.
"""

import dataclasses
from collections.abc import Collection

from transformers.modeling_outputs import CausalLMOutputWithPast

CACHE_NAMES = ("cache", "past_key_values", "cache_params")
_FIELDS = {field.name for field in dataclasses.fields(CausalLMOutputWithPast)}
# what outputs of a model and of `generate` call it, and `generate` itself takes
CACHE = next(name for name in CACHE_NAMES if name in _FIELDS)


def cache_name(parameters: Collection[str]) -> str:
    """The keyword for a cache among the `parameters` of a model's function."""
    return next((name for name in CACHE_NAMES if name in parameters), CACHE)
