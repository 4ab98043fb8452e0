"""OpenAI's own client against `leapdecode serve`, with a schema and the server's own facts.

.venv/bin/pip install -c constraints.txt -e '.[serve]' openai
leapdecode serve --port 8000 &
python examples/openai_client.py http://127.0.0.1:8000
"""

import sys

import openai


def main(server: str) -> None:
    client = openai.OpenAI(base_url=f"{server}/v1", api_key="none")
    model = client.models.list().data[0].id
    question = [{"role": "user", "content": "Tom has 3 bags with 4 apples each. How many?"}]
    stream = client.chat.completions.create(
        model=model, messages=question, max_tokens=60, temperature=0, stream=True,
        stream_options={"include_usage": True},
    )  # fmt: skip
    for chunk in stream:
        for choice in chunk.choices:
            print(choice.delta.content or "", end="", flush=True)
        if chunk.usage:
            print(f"\n[{chunk.usage.tokens_per_forward} tokens per forward]")
    schema = {"type": "object", "properties": {"apples": {"type": "integer", "maximum": 99}},
              "required": ["apples"], "additionalProperties": False}  # fmt: skip
    answer = client.chat.completions.create(
        model=model, messages=question, max_tokens=60, temperature=0,
        response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema}},
        extra_body={"method": "lookahead"},
    )  # fmt: skip
    print(answer.choices[0].message.content)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000")
