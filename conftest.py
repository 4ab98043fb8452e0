import copy
import logging
import os
import traceback

import hypothesis
import pytest
import torch
from stated import INSTALLED, LEARNED, free_rows

from leapdecode import LLM
from leapdecode.engine.shared import Shared
from leapdecode.methods.base import Method

# a busy machine says nothing of the code: an example may take as long as it takes
hypothesis.settings.register_profile(
    "leapdecode", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("leapdecode")

os.environ["OMP_NUM_THREADS"] = "1"  # of commands: two tests run at once


class Deprecations(logging.Handler):
    """Keeps the messages by which transformers says in its log, not by a warning, that something
    goes away.
    """

    def __init__(self):
        super().__init__(logging.WARNING)
        self.messages = []

    def emit(self, record):
        message = record.getMessage()
        if not ("deprecated" in message.lower() or "will be removed" in message):
            return
        files = [frame.f_code.co_filename for frame, _ in traceback.walk_stack(None)]
        # transformers' assisted decoding calls a draft's `generate` in a way that it deprecates
        if not any(file.endswith("candidate_generator.py") for file in files):
            self.messages.append(f"{record.name}: {message}")


DEPRECATIONS = Deprecations()
logging.getLogger("transformers").addHandler(DEPRECATIONS)


@pytest.fixture(autouse=True)
def deprecations():
    """Fails a test in which transformers logs that something is deprecated.

    What fixtures of a wider scope caused before it counts, too.
    """
    logging.getLogger("transformers").setLevel(logging.WARNING)  # a command may have raised it
    logging.Logger.warning_once.cache_clear()  # else only the first of all tests would fail
    yield DEPRECATIONS.messages
    found = list(DEPRECATIONS.messages)
    DEPRECATIONS.messages.clear()
    assert not found, "transformers deprecates what is used here:\n" + "\n".join(found)


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory):
    """Row costs measured beside other tests stay out of the user's cache folder.

    Processes that share a run of tests share what they have measured.

    Nor is it left to a clock whether a test decodes exactly, or how many guesses pay: those that
    should say so, and rows take no time elsewhere. Without this, every test that counts forwards or
    guesses would depend on the machine and on what runs beside it; `as_installed` undoes it.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("leapdecode.model.load.AUTO_COST", 0.0)
        patch.setattr(Shared, "times_of", free_rows)
        patch.setattr("leapdecode.model.cost.SECONDS", 0.1)  # curves of many small models
        run = tmp_path_factory.getbasetemp()
        run = run.parent if "PYTEST_XDIST_WORKER" in os.environ else run
        patch.setenv("XDG_CACHE_HOME", str(run / "cache"))
        yield


@pytest.fixture
def as_installed(monkeypatch, tmp_path):
    """What users have: row costs are learnt, and decide what is guessed and what is exact."""
    monkeypatch.setattr(Shared, "times_of", LEARNED)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name, value in INSTALLED.items():
        monkeypatch.setattr(name, value)


@pytest.fixture
def whole_trees(monkeypatch):
    """All guesses are evaluated, as in the papers, where a request says nothing of its budget."""
    monkeypatch.setattr(Method, "budget", None)


@pytest.fixture(scope="session")
def embedded_pair():
    """The embedded pair in float32, whatever a module calls `llm`."""
    return LLM("demo", device="cpu")


@pytest.fixture(scope="session")
def llm(embedded_pair):
    """The embedded pair in float32."""
    return embedded_pair


@pytest.fixture(scope="session")
def quick(embedded_pair):
    """The embedded draft in float32 as a target, and as its draft a copy that is off by some noise:
    for many runs.
    """
    return _small_pair(embedded_pair, torch.float32)


@pytest.fixture(scope="session")
def light(embedded_pair):
    """As `quick`, in float64: rounding decides nothing."""
    return _small_pair(embedded_pair, torch.float64)


def _small_pair(llm, dtype):
    target = copy.deepcopy(llm.draft).to(dtype)
    draft = copy.deepcopy(target)
    torch.manual_seed(0)
    for parameter in draft.parameters():
        parameter.data += 0.2 * parameter.data.std() * torch.randn_like(parameter.data)
    return LLM(target, llm.tokenizer, draft=draft)


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)
