"""A tiny Llama in a GGUF file, as llama.cpp's converter writes one: bytes as tokens, and a chat
template.
"""

import numpy as np
import torch
from gguf import GGUFWriter, TokenType
from tiny import new_model
from transformers import LlamaConfig
from transformers.convert_slow_tokenizer import bytes_to_unicode

TEMPLATE = (
    "{% for message in messages %}<s>{{ message['role'] }}\n{{ message['content'] }}</s>\n"
    "{% endfor %}{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)
LETTERS = list(bytes_to_unicode().values())
TOKENS = ["<s>", "</s>", *LETTERS, "th", "the"]
NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "model.layers": "blk", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}  # fmt: skip


def tiny_llama():
    """The model that the file holds, in float32."""
    config = LlamaConfig(
        vocab_size=len(TOKENS), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
        bos_token_id=0, eos_token_id=1, tie_word_embeddings=False,
    )  # fmt: skip
    return new_model(config).float()


def write_gguf(path, model, architecture="llama", pre=None):
    """Write a model of `tiny_llama`; returns the path as text."""
    config, writer = model.config, GGUFWriter(path, architecture)
    writer.add_name("tiny")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    if pre is not None:
        writer.add_tokenizer_pre(pre)
    writer.add_token_list(TOKENS)
    types = [TokenType.CONTROL] * 2 + [TokenType.NORMAL] * (len(TOKENS) - 2)
    writer.add_token_types(types)
    writer.add_token_merges(["t h", "th e"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_chat_template(TEMPLATE)
    for name, tensor in model.state_dict().items():
        for theirs, ours in NAMES.items():
            name = name.replace(f"{theirs}.", f"{ours}.")
        heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
        turned = heads.get(name.split(".")[-2])
        writer.add_tensor(name, _rotary(tensor, turned) if turned else _array(tensor))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return str(path)


def _array(tensor):
    return np.ascontiguousarray(tensor.to(torch.float32).numpy())


def _rotary(tensor, heads):
    """Rows of queries and keys in llama.cpp's order: the halves of a rotation side by side."""
    rows, columns = tensor.shape
    halves = tensor.reshape(heads, 2, rows // heads // 2, columns)
    return _array(halves.transpose(1, 2).reshape(rows, columns))
