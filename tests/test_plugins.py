"""Methods, tasks and schedulers are found by file, each under a name of its own."""

import sys

import pytest

from leapdecode.errors import OptionError, UnknownName
from leapdecode.plugins import Registry, find_classes


class Base:
    """What the toy plug-ins extend."""


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "toy_plugins"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "toy_base", sys.modules[__name__])
    yield folder
    for name in [name for name in sys.modules if name.startswith("toy_plugins")]:
        del sys.modules[name]


def plugin(name):
    return f"from toy_base import Base\n\n\nclass Toy(Base):\n    name = {name!r}\n"


def test_files_and_folders_are_found_and_what_they_import_is_not_found_twice(package):
    (package / "first.py").write_text(plugin("first"))
    (package / "second").mkdir()
    (package / "second" / "__init__.py").write_text(plugin("second"))
    (package / "third.py").write_text("from toy_plugins.first import Toy\n")
    assert sorted(find_classes("toy_plugins", Base)) == ["first", "second"]


def test_two_of_one_name_are_refused(package):
    (package / "first.py").write_text(plugin("same"))
    (package / "second.py").write_text(plugin("same"))
    with pytest.raises(OptionError, match="'same' is the name of two classes"):
        find_classes("toy_plugins", Base)


def test_a_file_of_the_package_itself_that_cannot_be_loaded_raises(package):
    (package / "broken.py").write_text("import no_such_module\n")
    (package / "first.py").write_text(plugin("first"))
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        find_classes("toy_plugins", Base)


def test_an_installed_class_that_cannot_be_loaded_is_left_out_with_a_warning(package):
    (package / "first.py").write_text(plugin("first"))
    (package.parent / "broken_one.py").write_text("import no_such_module\n")
    facts = package.parent / "broken_one-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: broken_one\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[toy_plugins]\nbroken = broken_one:Toy\n")
    with pytest.warns(UserWarning, match="cannot load broken_one:Toy: ModuleNotFoundError"):
        assert list(find_classes("toy_plugins", Base)) == ["first"]


def test_an_installed_package_names_its_classes_by_entry_point(package):
    (package / "first.py").write_text(plugin("first"))
    (package.parent / "elsewhere.py").write_text(plugin("installed"))
    facts = package.parent / "elsewhere-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[toy_plugins]\ninstalled = elsewhere:Toy\n")
    assert sorted(find_classes("toy_plugins", Base)) == ["first", "installed"]


def test_a_registry_names_finds_and_suggests(package):
    for name in ("second", "first"):
        (package / f"{name}.py").write_text(plugin(name))
    registry = Registry("toy_plugins", Base, "toy")
    assert registry.names() == ["first", "second"]
    assert registry.find("first").name == "first"
    assert registry.instance("first") is registry.instance("first")
    with pytest.raises(UnknownName, match="unknown toy 'frst'; did you mean 'first'"):
        registry.find("frst")
    by_length = Registry("toy_plugins", Base, "toy", order=lambda toy: -len(toy.name))
    assert by_length.names() == ["second", "first"]
