import pytest

from leapdecode_bench.tasks import sandbox


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Programs that end have a minute for it, however busy the machine is: starts count, too."""
    for run in (sandbox.run, sandbox.call):
        monkeypatch.setitem(run.__kwdefaults__, "seconds", 60.0)
