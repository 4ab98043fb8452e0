import pytest
import torch

from leapdecode import LLM


@pytest.fixture(scope="session")
def llm():
    """The embedded pair in float32."""
    return LLM("demo", device="cpu")


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)
