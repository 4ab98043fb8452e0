"""The prompts of real.py: six kinds, of public problems that are read from a folder, of our own
tasks, and of our own questions.

The folder holds `gsm8k_test_200.jsonl` (a JSON object a line with "question" and "answer") and
`humaneval.jsonl` (with "prompt"). Each number of a prompt has problems of its own: one for `gsm8k`,
six for `fewshot`, six for `joined`, so no text is in two prompts.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from leapdecode import LLM, SamplingParams
from leapdecode.errors import OptionError, PromptError, UnknownName, with_suggestions
from leapdecode_bench.measure.bench import Workload
from leapdecode_bench.measure.workloads import build, encode_all
from leapdecode_bench.tasks.public.chat_questions import ChatQuestions
from leapdecode_bench.tasks.registry import find

QUESTIONS = ChatQuestions.included
GSM8K, HUMANEVAL = "gsm8k_test_200.jsonl", "humaneval.jsonl"
BLOCK, SHOTS = 13, 5  # problems for one number of a prompt; worked examples before a question
TASKS = ("math", "code", "passage", "sql", "choice")
SEED = 3  # of our own tasks' prompts
ASKED = (
    "Read these problems and their solutions, then write a similar new problem with its solution."
)
Row = dict[str, Any]


def rows(path: Path, fields: tuple[str, ...]) -> list[Row]:
    """The objects of a file, one a line; raises `PromptError` where a field is missing."""
    try:
        parsed = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        if all(isinstance(row[field], str) for row in parsed for field in fields) and parsed:
            return parsed
    except OSError as error:
        raise PromptError(f"cannot read {path}: {error.strerror}; see --data") from error
    except (ValueError, KeyError, TypeError):
        pass
    raise PromptError(f"{path}: each line has to be a JSON object with {' and '.join(fields)}")


def blocks(data: Path) -> list[list[Row]]:
    """GSM8K's problems, `BLOCK` for each number of a prompt."""
    problems = rows(data / GSM8K, ("question", "answer"))
    grouped = [
        problems[start : start + BLOCK] for start in range(0, len(problems) - BLOCK + 1, BLOCK)
    ]
    if not grouped:
        raise PromptError(f"{data / GSM8K} needs at least {BLOCK} problems")
    return grouped


def gsm8k(data: Path, limit: int) -> list[Any]:
    """A question as a chat message."""
    return [chat_of(block[0]["question"]) for block in blocks(data)[:limit]]


def humaneval(data: Path, limit: int) -> list[Any]:
    """The head of a function, to be continued."""
    return [row["prompt"] for row in rows(data / HUMANEVAL, ("prompt",))[:limit]]


def fewshot(data: Path, limit: int) -> list[Any]:
    """Worked examples, then a question, in one chat message.

    As a bare text a model for chats may see it as finished, and end at the first token.
    """
    pattern = "Question: {question}\nAnswer: {answer}\n\n"
    return [
        chat_of(
            "".join(pattern.format_map(shot) for shot in block[2 : 2 + SHOTS])
            + f"Question: {block[1]['question']}\nAnswer:"
        )
        for block in blocks(data)[:limit]
    ]


def joined(data: Path, limit: int) -> list[Any]:
    """Six problems with their solutions in one chat message, which asks for a similar one."""
    return [
        chat_of("\n\n".join([ASKED, *map("{question}\n{answer}".format_map, block[2 + SHOTS :])]))
        for block in blocks(data)[:limit]
    ]


def tasks(data: Path, limit: int) -> list[Any]:
    """Held-out prompts of our own tasks in turn."""
    each = -(-limit // len(TASKS))
    drawn = [find(name).prompts(each, seed=SEED) for name in TASKS]
    return [prompts[number] for number in range(each) for prompts in drawn][:limit]


def chat(data: Path, limit: int) -> list[Any]:
    """Everyday questions as chat messages."""
    return [chat_of(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()[:limit]]


def chat_of(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


KINDS: dict[str, Callable[[Path, int], list[Any]]] = {
    "gsm8k": gsm8k,
    "humaneval": humaneval,
    "fewshot": fewshot,
    "joined": joined,
    "tasks": tasks,
    "chat": chat,
}


def check_kinds(kinds: list[str], data: Path) -> None:
    """Raise what is wrong with the kinds and their files before a model is loaded."""
    for kind in kinds:
        if kind not in KINDS:
            raise UnknownName(with_suggestions(f"--kinds {kind!r} is not known", kind, KINDS))
        KINDS[kind](data, 1)
    if not kinds:
        raise OptionError(f"--kinds is empty; choose from {', '.join(KINDS)}")


def workloads(
    kinds: list[str], data: Path, llm: LLM, limit: int, sampling: SamplingParams, control: bool
) -> list[Workload]:
    """A workload for each kind, and the control of text that cannot be guessed if it is wanted.

    Where the tokenizer has no chat template, a message's text is the prompt.
    """
    workloads_made = []
    for kind in kinds:
        prompts = KINDS[kind](data, limit)
        if not getattr(llm.tokenizer, "chat_template", None):
            prompts = [
                message if isinstance(message, str) else message[0]["content"]
                for message in prompts
            ]
        workloads_made.append(Workload(kind, encode_all(prompts, llm, kind)))
    if control:
        (forced,) = build("unguessable", llm, limit, SEED, sampling)
        workloads_made.append(replace(forced, name="unguessable"))
    return workloads_made
