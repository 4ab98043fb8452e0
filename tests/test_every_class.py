"""Every causal class of transformers, made tiny: its text is `generate`'s, or it is refused."""

import signal

import pytest
import torch
from tiny import new_model, prompts
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from leapdecode import LLM, SamplingParams
from leapdecode.errors import UnsupportedModel

TOKENS = 20
SECONDS = 120  # that making a model may take: some have parts that no option makes small
SIZES = {
    "hidden_size": 32, "embedding_size": 32, "n_embd": 32, "d_model": 32, "emb_dim": 32,
    "word_embed_proj_dim": 32, "lru_width": 32, "num_hidden_layers": 2, "n_layer": 2,
    "n_layers": 2, "num_layers": 2, "decoder_layers": 2, "encoder_layers": 2,
    "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4,
    "decoder_attention_heads": 4, "encoder_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 64, "ffn_dim": 64, "d_ff": 64, "n_inner": 64, "hidden_dim": 64,
    "decoder_ffn_dim": 64, "encoder_ffn_dim": 64, "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32, "head_dim": 8, "rotary_dim": 8, "vocab_size": 64,
    "max_position_embeddings": 256, "n_positions": 256, "sliding_window": 8,
    "attention_window_size": 16, "num_local_experts": 4, "num_experts": 4, "n_routed_experts": 4,
    "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "n_shared_experts": 1,
    "first_k_dense_replace": 1, "num_hidden_groups": 1, "q_lora_rank": 16, "kv_lora_rank": 16,
    "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8, "state_size": 4,
    "mamba_d_state": 4, "mamba_d_conv": 4, "mamba_n_heads": 4, "mamba_d_head": 16,
    "mamba_n_groups": 1, "is_decoder": True, "pad_token_id": 0, "bos_token_id": None,
    "eos_token_id": None,
}  # fmt: skip


def tiny_config(kind):
    config = CONFIG_MAPPING[kind]()
    text = config.get_text_config(decoder=True)
    sizes = {name: size for name, size in SIZES.items() if hasattr(text, name)}
    if "qk_rope_head_dim" in sizes:
        sizes.pop("head_dim", None)  # it follows from the other two
        sizes["num_key_value_heads"] = sizes["num_attention_heads"]
    kinds = list(dict.fromkeys(getattr(text, "layer_types", None) or []))
    if kinds:
        sizes["num_hidden_layers"] = max(2, len(kinds))
        sizes["layer_types"] = (kinds * 2)[: sizes["num_hidden_layers"]]
    return type(text)(**sizes)


def give_up(*_):
    raise TimeoutError


def tiny_model(kind):
    """A model of random weights in float64; skips where these sizes make none."""
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(SECONDS)
    try:
        return new_model(tiny_config(kind), torch.float64)
    except Exception as error:  # a class's own checks of its sizes
        pytest.skip(f"no tiny model of it: {type(error).__name__} {error}"[:200])
    finally:
        signal.alarm(0)


def generated(model, prompt):
    """The text of transformers; skips where it has none."""
    ids = torch.tensor([prompt])
    model.generation_config.eos_token_id = None
    try:
        whole = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=TOKENS, do_sample=False,
            pad_token_id=0, eos_token_id=None,
        )  # fmt: skip
    except Exception as error:  # a class that needs more than tokens
        pytest.skip(f"transformers generates nothing: {type(error).__name__} {error}"[:200])
    return whole[0, len(prompt) :].tolist()


@pytest.mark.long
@pytest.mark.parametrize("kind", sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES))
def test_its_text_is_that_of_generate_or_it_is_refused(kind):
    if kind == "moshi":
        pytest.skip("its generate adds audio codes to the text")
    model = tiny_model(kind)
    texts = [*prompts()[:3], prompts()[1] * 4]
    expected = [generated(model, prompt) for prompt in texts]
    sampling = SamplingParams(max_tokens=TOKENS, ignore_eos=True)
    try:
        llm = LLM(model)
        for method in ("hybrid", "lookahead"):
            for prompt, right in zip(texts, expected, strict=True):
                assert llm.generate(prompt, method=method, sampling=sampling).token_ids == right
    except UnsupportedModel:
        return
