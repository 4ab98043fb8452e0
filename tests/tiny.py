"""Tiny random models of real transformers classes, and prompts for them."""

import copy
import functools
import inspect
import random
from typing import Any

import torch
import transformers as t
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from leapdecode.core import Request, SamplingParams, Sequence
from leapdecode.engine import Engine, make_scheduler
from leapdecode.methods import find
from leapdecode.model.runner import Runner

VOCABULARY = 64
# what the installed transformers calls a cache: it was `past_key_values` before 5.24
_PARAMETERS = inspect.signature(t.LlamaForCausalLM.forward).parameters
CACHE = "cache" if "cache" in _PARAMETERS else "past_key_values"
BASE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 256,
}
GROUPED: dict[str, Any] = {**BASE, "intermediate_size": 64, "num_key_value_heads": 2}
GPT: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 256,
}
SLIDING = {"sliding_window": 8}

CONFIGS: dict[str, Any] = {
    "llama": lambda: t.LlamaConfig(**GROUPED),
    "qwen3": lambda: t.Qwen3Config(**GROUPED, head_dim=8),
    "gpt2": lambda: t.GPT2Config(**GPT),
    "opt": lambda: t.OPTConfig(**BASE, ffn_dim=64, word_embed_proj_dim=32),
    "gpt_neox": lambda: t.GPTNeoXConfig(**BASE, intermediate_size=64),
    "gemma3": lambda: t.Gemma3TextConfig(
        **GROUPED, **SLIDING, head_dim=8, layer_types=["sliding_attention", "full_attention"]
    ),
    "mistral": lambda: t.MistralConfig(**GROUPED, **SLIDING),
    "mixtral": lambda: t.MixtralConfig(**GROUPED, num_local_experts=4, num_experts_per_tok=2),
}
MORE_CONFIGS: dict[str, Any] = {
    "qwen2": lambda: t.Qwen2Config(**GROUPED),
    "phi": lambda: t.PhiConfig(**GROUPED),
    "phi3": lambda: t.Phi3Config(**GROUPED, **SLIDING, pad_token_id=0),
    "gemma": lambda: t.GemmaConfig(**GROUPED, head_dim=8),
    "gemma2": lambda: t.Gemma2Config(**GROUPED, **SLIDING, head_dim=8),
    "starcoder2": lambda: t.Starcoder2Config(**GROUPED, **SLIDING),
    "falcon": lambda: t.FalconConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, alibi=False
    ),
    "cohere": lambda: t.CohereConfig(**GROUPED),
    "olmo2": lambda: t.Olmo2Config(**GROUPED),
    "granite": lambda: t.GraniteConfig(**GROUPED),
    "stablelm": lambda: t.StableLmConfig(**GROUPED),
    "gptj": lambda: t.GPTJConfig(**GPT, rotary_dim=4),
    "gpt_bigcode": lambda: t.GPTBigCodeConfig(**GPT),
    "deepseek_v3": lambda: t.DeepseekV3Config(
        **{**GROUPED, "num_key_value_heads": 4}, moe_intermediate_size=16, n_routed_experts=4, num_experts_per_tok=2,
        n_group=1, topk_group=1, q_lora_rank=8, kv_lora_rank=8, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=4,
        first_k_dense_replace=1, n_shared_experts=1,
    ),
    "gpt_oss": lambda: t.GptOssConfig(
        **GROUPED, **SLIDING, head_dim=8, num_local_experts=4, num_experts_per_tok=2
    ),
}  # fmt: skip
REFUSED: dict[str, tuple[Any, str]] = {
    "mamba": (lambda: t.MambaConfig(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, state_size=4), "recurrent"),
    "mpt": (lambda: t.MptConfig(vocab_size=VOCABULARY, d_model=32, n_layers=2, n_heads=4, max_seq_len=256), "position_ids"),
    "gpt_neo": (
        lambda: t.GPTNeoConfig(
            vocab_size=VOCABULARY, hidden_size=32, num_layers=2, num_heads=4, window_size=8,
            attention_types=[[["global", "local"], 1]], max_position_embeddings=256,
        ),
        "differ from plain",
    ),
    "lfm2": (lambda: t.Lfm2Config(**GROUPED, layer_types=["conv", "full_attention"]), "type conv"),
    "bloom": (lambda: t.BloomConfig(vocab_size=VOCABULARY, hidden_size=32, n_layer=2, n_head=4), "position_ids"),
    "falcon_alibi": (
        lambda: t.FalconConfig(
            vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, alibi=True
        ),
        "forward fails",
    ),
    "jamba": (lambda: t.JambaConfig(**GROUPED, attn_layer_period=2, attn_layer_offset=1), "recurrent"),
}  # fmt: skip


EAGER_ONLY = ("gemma2", "gptj", "gpt_oss")  # these classes have no sdpa attention


@torch.inference_mode(False)  # whoever asks first: others may want gradients
def new_model(config: Any, dtype: torch.dtype = torch.float64, attention: str = "sdpa") -> Any:
    """A seeded random model; weights are scaled up so that its choices depend on what it attends
    to.
    """
    torch.manual_seed(0)
    attention = "eager" if config.model_type in EAGER_ONLY else attention
    config._experts_implementation = "eager"  # the grouped kernels have no float64
    model = t.AutoModelForCausalLM.from_config(
        config, attn_implementation=attention, dtype=dtype
    ).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(3.0)
    model.generation_config.eos_token_id = None
    return model


@functools.cache
def model(name: str) -> Any:
    return new_model((CONFIGS | MORE_CONFIGS)[name]())


@functools.cache
def runner(name: str) -> Runner:
    return Runner(model(name))


def plain_logits(name: str, ids: list[int]) -> torch.Tensor:
    """[tokens, vocabulary] of a plain forward."""
    with torch.no_grad():
        return model(name)(input_ids=torch.tensor([ids]), use_cache=False).logits[0]


@functools.cache
def draft_of(on: Runner) -> Runner:
    """A draft that often agrees with the model: its copy with noise on the weights."""
    draft = copy.deepcopy(on.model)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in draft.parameters():
            if parameter.ndim > 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.2 * float(parameter.std()))
    return Runner(draft)


def prompts(count: int = 8, longest: int = 60) -> list[list[int]]:
    """Ragged prompts with repeats in them, so that guesses can hit."""
    source = random.Random(5)
    made = []
    for number in range(count):
        piece = [source.randrange(VOCABULARY) for _ in range(3 + 2 * number)]
        made.append((piece * 3)[: min(3 + 7 * number, longest)])
    return made


def decode(
    on: Runner, texts: list[list[int]], method: str = "autoregressive", batch_size: int = 1,
    params: SamplingParams | None = None, only: tuple[int, ...] | None = None, **options: Any,
) -> list[Sequence]:  # fmt: skip
    """Decode `texts` by `method`, or `only` those of some numbers; returns the finished
    sequences.
    """
    params = params or SamplingParams(max_tokens=32)
    made = [
        Request(text, params, method, options, stream=number)
        for number, text in enumerate(texts)
        if only is None or number in only
    ]
    drafted = find(method).needs_draft or find(method).takes_draft
    return finish(on, draft_of(on) if drafted else None, made, batch_size)


def finish(
    on: Any, draft: Any, requests: list[Request], batch_size: int = 1, policy: str = "batched"
) -> list[Sequence]:
    """Decode `requests` to their ends; returns their sequences, and raises the first one's error."""
    engine = Engine({"target": on, "draft": draft}, make_scheduler(policy, batch_size))
    for request in requests:
        engine.add(request)
    while engine.busy:
        engine.step()
    made = [engine.result(request.id).sequence for request in requests]
    for sequence in made:
        if sequence.error is not None:
            raise sequence.error
    return made


def texts(sequences: list[Sequence]) -> list[list[int]]:
    return [sequence.generated for sequence in sequences]


def save_checkpoint(folder, model):
    """Save a model beside a tokenizer of as many words as `VOCABULARY` has; its folder, as text."""
    model.save_pretrained(folder)
    words = WordLevel({f"w{number}": number for number in range(VOCABULARY)}, unk_token="w0")
    tokenizer = t.PreTrainedTokenizerFast(tokenizer_object=Tokenizer(words))
    tokenizer.save_pretrained(folder)
    return str(folder)
