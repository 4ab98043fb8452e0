"""Small files in the published schemas of public sets: two right rows each, and a malformed one.

The rows are made up; fields, nesting and quirks are those of the real files.
"""

import gzip
import json
import sqlite3
from contextlib import closing

PDDL = """(define (problem BW-rand-3)
(:domain blocksworld-4ops)
(:objects a b c )
(:init
(handempty)
(ontable a)
(on b a)
(ontable c)
(clear b)
(clear c)
)
(:goal
(and
(on c a))
)
)
; a remark with (on a b) in it
"""
PLAN = "(unstack b a)\n(put-down b)\n(pick-up c)\n(stack c a)\n"
CHECK = "\n\nMETADATA = {\n    'author': 'jt'\n}\n\n\ndef check(candidate):\n"
TEXT = "Rain fell all night. The lamp was warm. Nobody asked why. It's late, said Ann."


def lines(path, *rows):
    """JSON lines; a text is a line as it stands."""
    made = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(made) + "\n", encoding="utf-8")
    return path


def whole(path, rows):
    path.write_text(json.dumps(rows), encoding="utf-8")
    return path


def gsm8k(folder):
    answer = "She has 3+4=<<3+4=7>>7 eggs.\nShe sells 7-2=<<7-2=5>>5.\n#### 5"
    return lines(
        folder / "test.jsonl",
        {"question": "Ann has 3 eggs\u2019 worth and buys 4.  How many?", "answer": answer},
        {"question": "What did she pay?", "answer": "It was 1,200*2.\n#### 2,400"},
        {"question": "No result?", "answer": "There is none."},
    ), ("line 3", '"answer"', "####")


def humaneval(folder):
    rows = [
        {
            "task_id": f"HumanEval/{n}",
            "prompt": f'def add{n}(a: int, b: int) -> int:\n    """ Add.\n    >>> add(1, 2)\n'
            '    3\n    """\n',
            "entry_point": f"add{n}",
            "canonical_solution": "    return a + b\n",
            "test": f"{CHECK}    assert candidate(2, 3) == 5\n\n",
        }
        for n in range(2)
    ]  # fmt: skip
    return lines(folder / "HumanEval.jsonl", rows[0], rows[1], rows[0] | {"entry_point": 7}), (
        "line 3", '"entry_point"', "7",
    )  # fmt: skip


def mbpp(folder):
    row = {
        "text": "Write a function to double a number.",
        "code": "import math\r\ndef double(x):\r\n  return 2 * x",
        "task_id": 601, "test_setup_code": "", "challenge_test_list": [],
        "test_list": ["assert double(2) == 4", "assert double(0) == 0", "assert double(-1) == -2"],
    }  # fmt: skip
    other = row | {"task_id": 602, "test_setup_code": "LIMIT = 3"}
    return lines(folder / "mbpp.jsonl", row, other, row | {"test_list": "assert"}), (
        "line 3", '"test_list"', "must be a list",
    )  # fmt: skip


def cnn_dailymail(folder):
    row = {
        "id": "0001d1af", "article": "(CNN) -- A dog found its way home.\n\nIt took a year.",
        "highlights": "Dog finds way home .\nJourney took a year .",
    }  # fmt: skip
    return lines(folder / "test.jsonl", row, row | {"id": "2"}, {"id": "3", "article": "News."}), (
        "line 3", '"highlights"', "is missing",
    )  # fmt: skip


def wmt16(folder):
    row = {"translation": {"de": "Das Haus ist alt.", "en": "The house is old."}}
    return lines(folder / "test.jsonl", row, row, {"translation": {"de": "Ja."}}), (
        "line 3", '"translation.en"', "is missing",
    )  # fmt: skip


def mt_bench(folder):
    row = {
        "question_id": 81, "category": "writing",
        "turns": ["Write about Hawaii.", "Rewrite it. Start with A."],
    }  # fmt: skip
    math = {
        "question_id": 111, "category": "math", "turns": ["1 + 1?", "Twice that?"],
        "reference": ["2", "4"],
    }  # fmt: skip
    return lines(folder / "question.jsonl", row, math, row | {"turns": []}), (
        "line 3", '"turns"', "must be a list of 1 or more",
    )  # fmt: skip


def spec_bench(folder):
    groups = ["translation", "summarization", "qa", "math_reasoning", "rag"]
    rows = [
        {"question_id": 241 + n, "category": name, "turns": [f"Do the {name}."]}
        for n, name in enumerate(groups)
    ]
    first = {"question_id": 81, "category": "coding", "turns": ["Code.", "Shorter."]}
    return lines(folder / "question.jsonl", first, *rows, first | {"category": "poetry"}), (
        "line 7", '"category"', "poetry",
    )  # fmt: skip


def csqa(folder):
    texts = ["bank", "library", "shop", "mall", "york"]
    options = [{"label": label, "text": text} for label, text in zip("ABCDE", texts, strict=True)]
    row = {
        "answerKey": "B", "id": "1afa",
        "question": {"question_concept": "book", "choices": options, "stem": "Where are books?"},
    }  # fmt: skip
    return lines(folder / "dev_rand_split.jsonl", row, row, row | {"answerKey": "F"}), (
        "line 3", '"answerKey"', "'F'",
    )  # fmt: skip


def strategyqa(folder):
    row = {
        "qid": "b8677742", "term": "Albany", "description": "Capital of New York",
        "question": "Will the Albany reach a hundred thousand?", "answer": False,
        "facts": ["It has 100,000 people."], "decomposition": ["What is #1?"],
        "evidence": [[[["Albany-1"]], ["operation"]]],
    }  # fmt: skip
    return whole(folder / "train.json", [row, row | {"answer": True}, row | {"answer": "no"}]), (
        "row 3", '"answer"', "true or false",
    )  # fmt: skip


def aqua(folder):
    row = {
        "question": "What is 3 + 4?", "options": ["A)5", "B)6", "C)7", "D)8", "E)None of these"],
        "rationale": "3 + 4 = 7\nanswer : C", "correct": "C",
    }  # fmt: skip
    return lines(folder / "test.json", row, row | {"correct": "E"}, row | {"correct": "F"}), (
        "line 3", '"correct"', "'F'",
    )  # fmt: skip


def spider(folder):
    place = folder / "database" / "singers"
    place.mkdir(parents=True)
    with closing(sqlite3.connect(place / "singers.sqlite")) as database:
        database.execute('CREATE TABLE "singer" ("Name" text, "Age" int)')
        database.executemany("INSERT INTO singer VALUES (?, ?)", [("Ann", 30), ("Bo", 41)])
        database.execute("INSERT INTO singer VALUES (CAST(x'4a6f73e9' AS TEXT), 25)")  # Latin-1
        database.commit()
    row = {
        "db_id": "singers", "query": "SELECT count(*) FROM singer",
        "query_toks": ["SELECT", "count"], "question": "How many singers do we have?",
        "question_toks": ["How"], "sql": {"from": {"table_units": []}},
    }  # fmt: skip
    older = {"query": "SELECT Name FROM singer ORDER BY Age DESC", "question": "Names, oldest?"}
    return whole(folder / "dev.json", [row, row | older, row | {"db_id": "cars"}]), (
        "row 3", '"db_id"', "cars.sqlite",
    )  # fmt: skip


def codesearchnet(folder):
    code = 'def area(self, w,\n         h):\n    """Area of a box."""\n    return w * h'
    row = {
        "repo": "a/b", "path": "b.py", "func_name": "Box.area", "language": "python",
        "original_string": code, "code": code, "code_tokens": ["def"], "partition": "test",
        "docstring": "Area of a box.", "docstring_tokens": ["Area"], "sha": "0", "url": "u",
    }  # fmt: skip
    path = folder / "python_test_0.jsonl.gz"
    old = row | {"code": "def f():\n    print 'hello'"}
    made = "".join(json.dumps(one) + "\n" for one in (row, row | {"func_name": "two"}, old))
    path.write_bytes(gzip.compress(made.encode()))
    return path, ("line 3", '"code"', "no Python")


def wikitext(folder):
    path = folder / "wiki.test.raw"
    article = " \n = Robert Boulter = \n \n Robert is an actor . He had a role in 2000 . \n"
    other = (
        " \n = = Career = = \n \n In 2004 he was in The Bill . \n \n = Ships = \n \n A ship . \n"
    )
    path.write_text(article + other, encoding="utf-8")
    return path, None


def ptb(folder):
    path = folder / "ptb.test.txt"
    sentence = " no it was n't black monday <unk> of N stocks \n"
    path.write_text(sentence * 25, encoding="utf-8")
    return path, None


def sharegpt(folder):
    said = [{"from": "human", "value": "How do I sort a list?"}, {"from": "gpt", "value": "So."}]
    rows = [
        {"id": "QWJhYvA_0", "conversations": [{"from": "gpt", "value": "Hello."}, *said]},
        {"id": "i6IyJda_0", "conversations": said},
        {"id": "empty_0", "conversations": []},
    ]
    return whole(folder / "ShareGPT_V3.json", rows), ("row 3", '"conversations"', "no message")


def blocksworld6(folder):
    instances = folder / "LLMs-Planning" / "instances"
    instances.mkdir(parents=True)
    rows = [[f"LLMs-Planning/instances/instance-{n}.pddl", PLAN, 6] for n in range(3)]
    for row in rows[:2]:
        (folder / row[0]).write_text(PDDL)
    place = folder / "data"
    place.mkdir()
    return whole(place / "split_v1_step_6_data.json", rows), ("row 3", '"0"', "instance-2.pddl")


def creative_writing(folder):
    return lines(folder / "data_100_random_text.txt", TEXT, TEXT, "One. Two."), (
        "line 3", '"text"', "4 sentences, not 2",
    )  # fmt: skip


def chat_questions(folder):
    path = folder / "questions.txt"
    path.write_text("Why is ice slippery?\n\nHow do I fold a shirt?\n")
    return path, ()


FILES = {
    one.__name__: one
    for one in (
        gsm8k, humaneval, mbpp, cnn_dailymail, wmt16, mt_bench, spec_bench, csqa, strategyqa, aqua,
        chat_questions, spider, codesearchnet, wikitext, ptb, sharegpt, blocksworld6,
        creative_writing,
    )
} | {"gsm8k_chat": gsm8k, "humaneval_chat": humaneval}  # fmt: skip
