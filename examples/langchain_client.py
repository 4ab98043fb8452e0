"""LangChain against `leapdecode serve`.

.venv/bin/pip install -c constraints.txt -e '.[serve]' langchain-openai
leapdecode serve --port 8000 &
python examples/langchain_client.py http://127.0.0.1:8000
"""

import sys

from langchain_openai import ChatOpenAI


def main(server: str) -> None:
    model = ChatOpenAI(
        base_url=f"{server}/v1", api_key="none", model="demo", temperature=0, max_tokens=60,
        extra_body={"method": "auto"},
    )  # fmt: skip
    for piece in model.stream("Tom has 3 bags with 4 apples each. How many apples are there?"):
        print(piece.content, end="", flush=True)
    print()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000")
