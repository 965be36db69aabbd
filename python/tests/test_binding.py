import json
import shutil
import subprocess
import threading

import pallasc
import pytest
from pallasc import binding
from pallasc.errors import FileError
from stubs import ROOT, build_stub, doubling_graph


@pytest.fixture
def library(stub_library, data, monkeypatch):
    monkeypatch.setenv("PALLASC_LIBRARY", str(stub_library))
    monkeypatch.setenv("STUB_SOURCE", str(data / "dma_double.py"))
    return binding.find_library()


def test_library(library):
    assert library.version == "0.0.stub"
    assert library.targets() == ["v5e", "v6e"]


def test_compile(library, tmp_path):
    module = pallasc.compile({"name": "g"}, {"block_sizes": [8]}, "v5e", sets=["a=1", "b=x"])
    assert module.info["name"] == "dma_double"
    assert module.plan == {"vmem": 1}
    assert [d["severity"] for d in module.diagnostics] == ["warning"]
    assert callable(module.load())
    size = __import__("ctypes").sizeof(binding._Options)
    assert module.report == f'{size} 23 v5e {{"block_sizes": [8]}} a=1 b=x'
    assert module.kernel == "program g for v6e\n"
    target = tmp_path / "chip.json"
    target.write_text('{"base": "v6e"}')
    assert pallasc.compile("{}", target=target).report == f'{size} 23 {{"base": "v6e"}} -'
    module.save(tmp_path / "k.py")
    assert (tmp_path / "k.py").read_text() == module.source


def test_graph_by_path(library, tmp_path):
    path = tmp_path / "g.json"
    path.write_text("{}")
    assert pallasc.compile(path).filename == "dma_double.py"
    assert pallasc.compile(str(path)).source
    with pytest.raises(FileError, match="cannot read"):
        pallasc.compile(tmp_path / "none.json")
    with pytest.raises(TypeError, match="a graph is"):
        pallasc.compile(3)
    with pytest.raises(pallasc.CompileError, match="not JSON"):
        pallasc.compile({"a": {1, 2}})


def test_refusal(library):
    with pytest.raises(pallasc.CompileError) as caught:
        pallasc.compile({"name": "refuse"})
    assert str(caught.value) == (
        "g.json:3:5: error: refused \u00e9\n  hint: do not\nerror: another"
    )
    assert [d.get("pointer") for d in caught.value.diagnostics] == ["/name", None]
    assert caught.value.exit_status == 1
    with pytest.raises(pallasc.CompileError) as caught:
        pallasc.compile({}, target="bad")
    assert caught.value.exit_status == 2
    with pytest.raises(pallasc.CompileError, match="NUL"):
        pallasc.compile({}, target="v6\0e")


def test_one_graph_many_threads(library):
    graph = binding.Graph("{}")
    answers = []

    def work(target):
        answers.extend(graph.compile(target=target)["report"].split()[2] for _ in range(50))

    threads = [threading.Thread(target=work, args=(name,)) for name in ("v5e", "v6e")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == ["v5e"] * 50 + ["v6e"] * 50


def test_library_that_cannot_be_used(tmp_path, monkeypatch):
    monkeypatch.setenv("PALLASC_LIBRARY", str(tmp_path / "none.so"))
    with pytest.raises(FileError, match="run `make`"):
        binding.find_library()
    (tmp_path / "text.so").write_text("no library")
    with pytest.raises(FileError, match="cannot load"):
        binding.Library(tmp_path / "text.so")
    old = build_stub(tmp_path / "old.so", "-DSTUB_ABI=99")
    with pytest.raises(FileError, match="ABI 99"):
        binding.Library(old)


def test_null_handles(library):
    dll = library._dll
    dll.pallasc_result_free(None)
    dll.pallasc_graph_free(None)
    dll.pallasc_context_free(None)
    assert dll.pallasc_result_status(None) == binding.FAILED


COMPILERS = [
    command
    for command in ("gcc -std=c11", "clang -std=c11", "g++ -std=c++17")
    if shutil.which(command.split()[0])
]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_header_stands_alone(compiler, tmp_path):
    command = compiler.split()
    language = "c++" if "++" in compiler else "c"
    source = (
        '#include "pallasc/pallasc.h"\n'
        "unsigned emit(void);\n"
        "unsigned emit(void) { pallasc_options o = PALLASC_OPTIONS_INIT; return o.emit; }\n"
    )
    flags = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", f"-I{ROOT / 'include'}"]
    result = subprocess.run(
        [*command, *flags, "-x", language, "-c", "-o", tmp_path / "t.o", "-"],
        input=source,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr


real = ROOT / "build" / "libpallasc.so"


def test_the_real_library(monkeypatch):
    monkeypatch.setenv("PALLASC_LIBRARY", str(real))
    library = binding.find_library()
    assert {"v4", "v5e", "v5p", "v6e", "v7x"} <= set(library.targets())
    module = pallasc.compile(json.dumps(doubling_graph()))
    assert module.info["name"] == "dma_double"
    with pytest.raises(pallasc.CompileError) as caught:
        pallasc.compile("{}")
    assert caught.value.diagnostics
