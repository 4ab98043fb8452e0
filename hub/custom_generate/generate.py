"""What `model.generate(custom_generate="owner/leapdecode", trust_remote_code=True)` runs.

All decoding is in the package leapdecode; this file only hands the call over.
"""

from typing import Any

from leapdecode.hf import decoding

# how this file was found; transformers hands these on
LOADING = (
    "cache_dir", "force_download", "local_files_only", "proxies", "repo_type", "revision", "token",
)  # fmt: skip


def generate(
    model: Any,
    inputs: Any = None,
    *,
    method: str = "auto",
    options: dict[str, Any] | None = None,
    assistant_model: Any = None,
    **arguments: Any,
) -> Any:
    """`model.generate(inputs, **arguments)` with several tokens per forward, and the same text.

    Args:
        method: where guesses come from; `leapdecode methods` lists them.
        options: options of the method, for example `{"window": 15}` of `lookahead`.
        assistant_model: a smaller model with the same vocabulary, for methods that take a draft.
        arguments: what `generate` takes: `max_new_tokens`, `streamer`, `stop_strings` with
            `tokenizer`, ...

    Raises `leapdecode.errors.OptionError`, a `ValueError`, for what it cannot honour.
    """
    for name in LOADING:
        arguments.pop(name, None)
    chosen = decoding(method, draft=assistant_model, **(options or {}))
    return chosen.generate(model, inputs, **arguments)
