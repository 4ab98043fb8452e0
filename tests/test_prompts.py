"""What a prompt may be: everything that transformers takes, as ids that are the tokenizer's own."""

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from leapdecode import SamplingParams
from leapdecode.errors import OptionError, PromptError
from leapdecode.llm.prompts import encode
from leapdecode.server.bodies import ChatCompletion, Message, Tokenize
from leapdecode.server.jobs import ending_of

WORDS = ["<unk>", "</s>", ":", "user", "ann", "bob", "hi", "you", "assistant", "None", "system"]
NAMES = "{{ m.role }} {{ m.name if m.name else '' }} : {{ m.content }} "
PARTS = "{{ m.role }} : {% for part in m.content %}{{ part.text }} {% endfor %}"


def chatting(template):
    tokenizer = Tokenizer(
        models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>", unk_token="<unk>")
    begins = "{% if add_generation_prompt %}assistant :{% endif %}"
    made.chat_template = f"{{% for m in messages %}}{template}</s> {{% endfor %}}{begins}"
    return made


@pytest.fixture
def names():
    return chatting(NAMES)


def text(tokenizer, messages, **arguments):
    return tokenizer.decode(encode(messages, tokenizer, len(WORDS), **arguments))


def test_all_that_tokenizers_give_is_one_prompt(llm):
    sampling = SamplingParams(max_tokens=3)
    ids = llm.tokenizer("def fib(n):")["input_ids"]
    expected = llm.generate(ids, sampling=sampling).token_ids
    for prompt in (
        np.array(ids), np.array([ids]), list(np.array(ids)), torch.tensor(ids),
        torch.tensor([ids]), list(torch.tensor(ids)), tuple(ids), iter(ids),
        llm.tokenizer("def fib(n):"), llm.tokenizer("def fib(n):", return_tensors="pt"),
        np.str_("def fib(n):"),
    ):  # fmt: skip
        assert llm.generate(prompt, sampling=sampling).token_ids == expected
    assert [p.token_id for p in llm.stream(torch.tensor([ids]), sampling=sampling)] == expected


def test_all_that_can_be_iterated_over_is_many_prompts(llm):
    sampling, two = SamplingParams(max_tokens=3), ["def fib(n):", "class"]
    expected = [llm.generate(prompt, sampling=sampling).token_ids for prompt in two]
    batch = llm.tokenizer(two, return_tensors="pt", padding=True, padding_side="left")
    for prompts in (
        iter(two), np.array(two), tuple(two), llm.tokenizer(two), batch,
        [llm.tokenizer(prompt) for prompt in two],
    ):  # fmt: skip
        found = llm.generate(prompts, sampling=sampling)
        assert [result.token_ids for result in found] == expected


@pytest.mark.parametrize("wrong", [[1.5], [True], [-1], [99], 5, None, torch.tensor([1.5]), b"ab"])
def test_wrong_prompts_are_still_refused(wrong, names):
    with pytest.raises(PromptError, match=r"token ids are integers from 0 to|a prompt is a string"):
        encode(wrong, names, len(WORDS))


def test_numbers_of_numpy_and_torch():
    params = SamplingParams(
        max_tokens=np.int64(8), temperature=np.float32(0.5), top_k=torch.tensor(3),
        seed=np.int64(3),
        top_p=torch.tensor(0.5), logit_bias={np.int64(3): np.float32(1.0)}, 
        ignore_eos=np.bool_(True),
    )  # fmt: skip
    assert params == SamplingParams(
        max_tokens=8, temperature=0.5, top_k=3, seed=3, top_p=0.5, logit_bias={3: 1.0},
        ignore_eos=True,
    )  # fmt: skip
    assert type(params.max_tokens) is int
    with pytest.raises(OptionError, match="max_tokens"):
        SamplingParams(max_tokens=np.float32(8))


def test_all_keys_of_a_message_reach_the_template(names):
    messages = [
        {"role": "user", "name": "ann", "content": "hi"}, {"role": "user", "content": "you"},
    ]  # fmt: skip
    assert text(names, messages) == "user ann : hi </s> user : you </s> assistant :"
    served = [Message(**message).plain for message in messages]
    assert text(names, served) == text(names, messages)


@pytest.mark.parametrize("template", [NAMES, PARTS])
def test_contents_may_be_parts_or_nothing(template):
    tokenizer = chatting(template)
    parts = [{"type": "text", "text": "hi"}, {"type": "text", "text": "you"}]
    assert text(tokenizer, [{"role": "user", "content": parts}]).startswith("user : hi you </s>")
    nothing = [{"role": "assistant", "content": None}, {"role": "user", "content": []}]
    assert text(tokenizer, nothing) == "assistant : </s> user : </s> assistant :"
    for wrong in (5, [5], [{"type": "image_url", "image_url": "a"}], {"type": "text"}):
        with pytest.raises(PromptError, match="a message's content is a string or a list of texts"):
            encode([{"role": "user", "content": wrong}], tokenizer, len(WORDS))


def test_an_answer_that_is_begun_goes_on(names):
    """Its meaning is that of transformers' pipeline."""
    begun = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hi you"}]
    assert text(names, begun) == "user : hi </s> assistant : hi you"
    assert text(names, begun, continue_final_message=False).endswith("hi you </s> assistant :")
    assert text(names, begun[:1], continue_final_message=True) == "user : hi"
    assert text(names, begun[:1], add_generation_prompt=False) == "user : hi </s>"
    with pytest.raises(PromptError, match="exclude each other"):
        encode(begun, names, 99, continue_final_message=True, add_generation_prompt=True)


@pytest.mark.parametrize("kind", [ChatCompletion, Tokenize])
def test_the_server_s_fields_are_those_of_vllm(kind, names):
    begun = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hi you"}]

    def served(**fields):
        body = kind(messages=begun, **fields)
        return text(names, [message.plain for message in body.messages], **ending_of(body))

    assert served().endswith("hi you </s> assistant :")
    assert served(continue_final_message=True, add_generation_prompt=False).endswith(": hi you")
    assert served(add_generation_prompt=False).endswith("hi you </s>")
    with pytest.raises(ValidationError, match="goes with add_generation_prompt: false"):
        served(continue_final_message=True)


class OwnForm(PreTrainedTokenizerFast):
    """As MistralCommonBackend: it makes the ids of a conversation itself, without a template."""

    def apply_chat_template(self, conversation, tokenize=True, **arguments):
        assert tokenize
        return [3, 6, len(conversation)]


def test_a_tokenizer_that_makes_ids_of_conversations_itself(names):
    own = OwnForm(tokenizer_object=names.backend_tokenizer, eos_token="</s>", unk_token="<unk>")
    assert encode([{"role": "user", "content": "hi"}], own, len(WORDS)) == [3, 6, 1]


def test_chat_takes_many_conversations(light, monkeypatch):
    template = "{% for m in messages %}{{ m.content }}\n{% endfor %}"
    monkeypatch.setattr(light.tokenizer, "chat_template", template)
    sampling = SamplingParams(max_tokens=3)
    chats = [[{"role": "user", "content": content}] for content in ("a", "b")]
    both = light.chat(iter(chats), sampling=sampling)
    alone = [light.chat(chat, sampling=sampling) for chat in chats]
    assert [one.token_ids for one in both] == [one.token_ids for one in alone]
    assert [one.prompt_token_ids for one in both] == [one.prompt_token_ids for one in alone]
