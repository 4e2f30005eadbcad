"""``nki profile``: what it prints and writes, and what it says about wrong commands."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from nki.cli import profile_page
from nki.profiling.amounts import duration
from tests.support.command_line import Ran

ROOT = Path(__file__).parent.parent.parent
KERNELS = '''
import nki
import nki.isa as nisa
import nki.language as nl
from tests.profiling import kernels

product = nki.jit(kernels.product)
add_up = nki.jit(kernels.add_up)
halves = nki.jit(kernels.halves)


@nki.jit
def scaled(x, factor):
    """x * factor."""
    print("specialising", x.shape)
    t = nl.load(x)
    nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=factor)
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=y, src=t)
    return y


@nki.jit
def twice(x, factor):
    """x * factor * factor."""
    t = nl.load(x)
    nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=factor)
    nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=factor)
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=y, src=t)
    return y


@nki.jit
def wrong(x):
    return nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
'''


@pytest.fixture
def file(tmp_path, monkeypatch):
    (tmp_path / "many.py").write_text(KERNELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)
    return "many.py"


@pytest.fixture
def nki(capsys):
    return lambda *arguments: Ran(capsys, "profile", *arguments)


SCALED = ("--arg", "128x256:float32", "--arg", "2.0")


def test_the_report(file, nki):
    ran = nki(f"{file}:scaled", *SCALED, "--target", "trn2")
    assert ran.code == 0 and ran.err == ""
    lines = ran.out.splitlines()
    assert lines[0] == "specialising (128, 256)"
    assert lines[1].startswith("scaled on trn2: ") and "between" in lines[1]
    assert any("many.py:" in line and "nisa.tensor_scalar" in line for line in lines)


def test_json_is_the_summary(file, nki):
    ran = nki(f"{file}:scaled", *SCALED, "--target", "trn2", "--json")
    sessions = json.loads(ran.out)
    assert list(sessions) == ["scaled on trn2"] and ran.err == "specialising (128, 256)\n"
    summary = sessions["scaled on trn2"]
    assert summary["source"] == "open-nki model" and summary["hbm_read_bytes"] == 128 * 256 * 4


def test_targets_side_by_side(file, nki):
    ran = nki(f"{file}:scaled", *SCALED, "--target", "trn1", "--target", "trn2", "--target", "trn3")
    titles = next(line for line in ran.out.splitlines() if "trn1" in line)
    assert titles.split() == ["scaled", "on", "trn1", "scaled", "on", "trn2", "scaled", "on", "trn3"]
    sessions = json.loads(nki(f"{file}:scaled", *SCALED, "--target", "trn1", "--target", "trn2", "--json").out)
    assert list(sessions) == ["scaled on trn1", "scaled on trn2"]


def test_compared_with_another_kernel(file, nki):
    ran = nki(f"{file}:scaled", *SCALED, "--compare", f"{file}:twice", "--target", "trn2")
    assert ran.code == 0
    assert "scaled on trn2" in ran.out and "twice on trn2" in ran.out and "difference" in ran.out
    sessions = json.loads(nki(f"{file}:scaled", *SCALED, "--compare", f"{file}:twice", "--json").out)
    first, second = sessions.values()
    assert second["vector_engine_instruction_count"] == 2 * first["vector_engine_instruction_count"]


def test_what_if(file, nki):
    ran = nki(f"{file}:scaled", *SCALED, "--target", "trn2", "--what-if", "dma_bandwidth=2.0", "--what-if", "launch=0")
    assert ran.code == 0 and "dma_bandwidth=2.0 launch=0" in ran.out
    sessions = json.loads(nki(f"{file}:scaled", *SCALED, "--what-if", "launch=0", "--json").out)
    first, second = sessions.values()
    assert second["launch_time"] == 0 < first["launch_time"]
    assert second["total_time"] == first["total_time"]


def test_files(file, nki):
    options = ("--html", "a.html", "--trace", "a.pftrace", "--parquet", "tables")
    ran = nki(f"{file}:scaled", *SCALED, *options)
    assert ran.code == 0
    assert Path("a.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert Path("a.pftrace").stat().st_size > 1000
    assert len(list(Path("tables").glob("*.parquet"))) == 18
    assert ran.out.splitlines()[-3:] == [
        "a.html: the report for a browser",
        "a.pftrace: a trace for Perfetto",
        "tables: 18 tables",
    ]


def test_a_capture_beside_it(file, nki):
    words = (f"{file}:scaled", *SCALED, "--target", "trn2")
    shown = json.loads(nki(*words, "--json", "--what-if", "dma_trigger_ns=600").out)
    (_, session) = shown.values()
    Path("summary.json").write_text(json.dumps(session))
    ran = nki(*words, "--against", "summary.json", "--calibrate", "facts.json", "--html", "report.html")
    assert ran.code == 0 and "dma_trigger_ns 565 -> 600 ns explains" in ran.out
    assert "facts.json: 1 fact: dma_trigger_ns" in ran.out and "card against" in Path("report.html").read_text()
    document = json.loads(nki(*words, "--json", "--facts", "facts.json", "--against", "summary.json").out)
    (calibrated,) = document["scaled on trn2"]["calibrated"]
    assert calibrated["name"] == "dma_trigger_ns" and "facts.json" in calibrated["source"]
    assert document["scaled on trn2"]["against"]["explanations"] == []
    assert document["scaled on trn2"]["total_time"] == pytest.approx(session["total_time"], rel=1e-4)
    assert nki(*words, "--facts", "facts.json", "--target", "trn1").code == 1


def test_artifacts_have_the_same_profile(file, nki, capsys):
    Ran(capsys, "dump", f"{file}:scaled", *SCALED, "--target", "trn2", "--artifact", "scaled.klir")
    from_source = json.loads(nki(f"{file}:scaled", *SCALED, "--target", "trn2", "--json").out)
    from_file = json.loads(nki("scaled.klir", "--json").out)
    assert from_source == from_file
    ran = nki("scaled.klir", "--target", "trn1")
    assert ran.code == 2 and "was compiled for trn2" in ran.err


def test_two_cores(file, nki):
    ran = nki(f"{file}:halves", "--arg", "256x64:float32", "--cores", "2", "--target", "trn2")
    assert ran.code == 0 and "0.vector" in ran.out and "1.vector" in ran.out


def test_data_decide_a_number_of_iterations(file, nki):
    np.save("rows.npy", np.array([[5]], np.int32))
    x = ("--arg", "256x64:float32")
    five = json.loads(nki(f"{file}:add_up", *x, "--arg", "rows.npy", "--json").out)
    one = json.loads(nki(f"{file}:add_up", *x, "--arg", "1x1:int32:ones", "--json").out)
    (five,), (one,) = five.values(), one.values()
    assert five["hbm_read_bytes"] - one["hbm_read_bytes"] == 4 * 64 * 4


def test_stated_numbers_of_iterations(file, nki):
    shapes = ("--arg", "256x64:float32", "--arg", "1x1:int32", "--json")
    (five,) = json.loads(nki(f"{file}:add_up", *shapes, "--trips", "5").out).values()
    (some,) = json.loads(nki(f"{file}:add_up", *shapes, "--trips", "0:5").out).values()
    assert five["hbm_read_bytes"] == some["hbm_read_bytes"] == 5 * 64 * 4 + 4
    assert five["latency"] == some["latency"] and some["latency_min"] < five["latency_min"]


def test_a_number_of_iterations_without_data(file, nki):
    ran = nki(f"{file}:add_up", "--arg", "256x64:float32", "--arg", "1x1:int32")
    assert ran.code == 1 and ran.out == ""
    assert ran.err.startswith("[NKI-PR001] the number of iterations of this loop depends on the contents of 'rows'")
    assert "kernels.py:" in ran.err
    assert "--arg rows=FILE.npy or a filling such as --arg rows=1x1:int32:ones" in ran.err


@pytest.mark.parametrize(
    ("options", "code", "message", "fix"),
    [
        (("--target", "trn9"), 2, "--target: target 'trn9' does not exist", "use one of trn1"),
        (
            ("--what-if", "dma_bandwith=2"),
            2,
            "--what-if dma_bandwith=2: there is no such number of trn3",
            "did you mean dma_bandwidth",
        ),
        (
            ("--what-if", "launch=0", "--what-if", "launch=1"),
            2,
            "--what-if launch is given twice",
            "one after the other",
        ),
        (("--target", "trn1,trn2"), 2, "'trn1,trn2' does not exist", "give --target once for each"),
        (("--cores", "3", "--target", "trn2"), 2, "--cores 3: a kernel on trn2 runs on at most 2", "pass --cores 2"),
        (("--cores", "2", "--target", "trn1"), 2, "--cores 2: a kernel on trn1 runs on at most 1", "--target trn2"),
        (("--compare", "many.py:wrong"), 2, "--compare many.py:wrong: kernel wrong(x)", "get the same --arg"),
        (("--html", "."), 2, "--html .: this is a folder", "name a file in it, such as profile"),
        (("--trace", "."), 2, "--trace .: this is a folder", "name a file in it"),
        (("--parquet", "many.py"), 2, "--parquet many.py: this is a file", "choose a folder"),
        (("--parquet", "many.py/tables"), 2, "--parquet many.py/tables: Not a directory", "choose a folder"),
        (("--htm", "a.html"), 2, "nki profile has no option --htm", "did you mean --html?"),
        (("--html",), 2, "--html needs a value", "write --html VALUE"),
        (("--arg", "-1x2:float32"), 2, "--arg needs a value", "--arg=VALUE if the value begins with -"),
        (("--seed", "x"), 2, "--seed x: this is no whole number", "such as --seed 1"),
        (("--target", ""), 2, "target '' does not exist", "use one of trn1"),
        (
            ("--trips", "3"),
            2,
            "--trips 3: scaled has no loop with a number of iterations that depends on data",
            "leave --trips",
        ),
        (("more",), 2, "nki profile does not know what to do with 'more'", "see nki profile --help"),
        (("--cores", "0"), 2, "runs on at least 1 core", "pass --cores 1"),
        (("--what-if", "dma_bandwidth"), 2, "--what-if dma_bandwidth: this is no NAME=NUMBER", "dma_bandwidth=2.0"),
        (
            ("--what-if", "dma_bandwidth=-1"),
            2,
            "--what-if dma_bandwidth=-1: this is no positive number",
            "pass a number",
        ),
        (("--what-if", "launch=0", "--compare", "many.py:twice"), 2, "do not go together", "one after the other"),
        (("--html", "none/a.html"), 2, "--html none/a.html: there is no folder none", "create it: mkdir -p none"),
        (("--compare", "many.py:thrice"), 2, "has no kernel 'thrice'", "did you mean twice"),
        (("--trips", "5:2"), 2, "--trips 5:2: this is no number of iterations", "such as 0:64"),
        (("--seed", "-1"), 2, "--seed -1: seeds are not negative", ""),
        (("--html", ""), 2, "--html is empty", "name a file"),
        (("--compare", ""), 2, "--compare is empty", "name a file"),
        (("--html", "many.py"), 2, "--html many.py: the command reads this file", "name another"),
        (("--html", "a", "--trace", "./a"), 2, "--html and --trace both name a", "a file of its own"),
        (("--against", "none"), 1, "none: there is no such file or folder", "a summary-json"),
        (("--against", ""), 2, "--against is empty", "name a file"),
        (("--against", "many.py", "--what-if", "launch=0"), 2, "do not go together", "one after the other"),
        (("--calibrate", "facts.json"), 2, "--calibrate needs a capture", "--against CAPTURE"),
        (("--against", "a.json", "--calibrate", "a.json"), 2, "the command reads this file", "name another"),
        (("--facts", "none.json"), 1, "none.json: No such file", "--calibrate FILE writes"),
        (("--what-if", "partitions=64"), 2, "--what-if partitions=64: the compiler has used this number", "GB/s"),
        (("--grid", "0x2"), 2, "an axis of '0x2' is no positive number", ""),
    ],
)
def test_wrong_commands(file, nki, options, code, message, fix):
    ran = nki(f"{file}:scaled", *SCALED, *options)
    assert ran.code == code and message in ran.err and fix in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("words", "message", "fix"),
    [
        (
            ["many.py:scaled", "--arg", "128,256:float32"],
            "--arg 128,256:float32 cannot be read",
            "mean 128x256:float32?",
        ),
        (["many.py:scaled", "--arg", "(128, 256): bfloat16"], "cannot be read", "did you mean 128x256:bfloat16?"),
        (
            ["many.py:scaled", "--arg", "8x8:int8:one"],
            "--arg 8x8:int8:one: there is no fill 'one'",
            "did you mean ones",
        ),
        (["many.py:scaled"], "missing a required argument: 'x'", "such as --arg x=128x512:float32"),
        (["many.py:scaled", "--arg", "8x8:int8"], "required argument: 'factor'", "such as --arg factor="),
        (["."], ". is a folder", "name a file in it: many.py"),
    ],
)
def test_wrong_arguments(file, nki, words, message, fix):
    ran = nki(*words)
    assert ran.code == 2 and message in ran.err and fix in ran.err


def test_a_file_that_cannot_be_written_is_refused_before_the_work(file, nki):
    ran = nki(f"{file}:scaled", *SCALED, "--html", "none/a.html")
    assert ran.code == 2 and "specialising" not in ran.out


def test_an_encoding_without_the_letters(file):
    command = [sys.executable, "-m", "nki", "profile", f"{file}:scaled", *SCALED]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert " us of launch" in done.stdout and "busy #  stalled :" in done.stdout


def test_an_interrupt_is_no_traceback(file, nki, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("nki.cli.profile.of_program", interrupted)
    ran = nki(f"{file}:scaled", *SCALED)
    assert ran.code == 130 and ran.err == "nki: interrupted\n"


@pytest.mark.parametrize(
    ("text", "message", "fix"),
    [
        ("x = 1", "has no kernel", "write @nki.jit above a kernel"),
        ("def plain(x):\n    return x\n", "has no kernel", "or name one of: plain"),
        ("def broken(:\n", "SyntaxError: invalid syntax", "correct that first"),
        ("import no_such_package_here\n", "No module named 'no_such_package_here'", "install no_such_package_here"),
        ("raise RuntimeError('no')\n", "bad.py:1\n    1 | raise RuntimeError('no')", "correct that first"),
    ],
)
def test_files_without_a_kernel(file, nki, text, message, fix):
    Path("bad.py").write_text(text)
    ran = nki("bad.py", *SCALED)
    assert ran.code in (1, 2) and message in ran.err and fix in ran.err
    assert "load_kernel.py" not in ran.err and "importlib" not in ran.err


def test_a_kernel_that_its_file_measures(file, nki):
    """Files written for Beta 1 decorate their kernels with what measures them."""
    Path("measured.py").write_text(KERNELS + "\n\nmeasured = nki.baremetal(scaled)\n")
    assert nki("measured.py:measured", *SCALED).out.splitlines()[1].startswith("scaled on trn3: ")


def test_a_kernel_that_does_not_compile(file, nki):
    ran = nki(f"{file}:wrong", "--arg", "128x256:float32")
    assert ran.code == 1 and ran.err.startswith("[NKI-KN003]") and "many.py:" in ran.err
    ran = nki(f"{file}:wrong", "--arg", "128x256:float32", "--json")
    assert ran.code == 1 and json.loads(ran.out)["code"] == "NKI-KN003"


def test_a_missing_package_is_told_before_the_work(file, nki, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    ran = nki(f"{file}:scaled", *SCALED, "--parquet", "tables")
    assert ran.code == 1 and "[NKI-PR003]" in ran.err and "pip install pyarrow" in ran.err
    assert "specialising" not in ran.out


def test_a_profile_leaves_the_cache_and_the_results_alone(tmp_path):
    (tmp_path / "many.py").write_text(KERNELS)
    program = """
import os, sys
import numpy as np
import nki
from many import twice
from pathlib import Path

def files():
    folder = Path(os.environ["OPEN_NKI_CACHE"])
    return {str(p): (p.stat().st_mtime_ns, p.read_bytes()) for p in sorted(folder.rglob("*")) if p.is_file()}

x = np.random.default_rng(0).standard_normal((128, 256), np.float32)
kept = x.copy()
before = twice(x, 2.0)
there = files()
assert there, "a call keeps its kernel"
for target in ("trn1", "trn2", "trn3"):
    profile = nki.profile(twice, target=target)(x, 2.0)
    str(profile), profile.summary(), profile.interval
    profile.what_if(dma_bandwidth=2.0)
assert files() == there
assert len(twice._executables) == 1
np.testing.assert_array_equal(x, kept)
np.testing.assert_array_equal(twice(x, 2.0), before)
"""
    environment = {**os.environ, "OPEN_NKI_CACHE": str(tmp_path / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("OPEN_NKI_CACHE_DISABLE", None)
    script = tmp_path / "script.py"
    script.write_text(program)
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    listing = [
        sys.executable,
        "-m",
        "nki",
        "profile",
        f"{tmp_path}/many.py:halves",
        "--cores",
        "2",
        "--arg",
        "256x64:float32",
    ]
    count = len(list((tmp_path / "cache").rglob("*.klir")))
    assert subprocess.run(listing, env=environment, capture_output=True, check=False).returncode == 0
    assert len(list((tmp_path / "cache").rglob("*.klir"))) == count


def fetched(address: str, **headers: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_the_server_has_one_page():
    listening, address = profile_page.server(b"<p>the page</p>")
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    try:
        assert listening.server_address[0] == "127.0.0.1"
        assert fetched(address) == (200, b"<p>the page</p>")
        root = f"http://127.0.0.1:{listening.server_port}"
        for path in ("/", "/etc/passwd", "/../../etc/passwd", address.removeprefix(root) + "x"):
            assert fetched(root + path)[0] == 404, path
        assert fetched(address, Host="elsewhere.example")[0] == 404  # a name that an attacker points here
        connection = http.client.HTTPConnection("127.0.0.1", listening.server_port, timeout=10)
        connection.request("POST", "/")
        assert connection.getresponse().status == 501
        connection.close()
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()
    with profile_page.server(b"")[0] as one, profile_page.server(b"")[0] as other:
        assert one.server_port != other.server_port


def test_open_serves_until_interrupted(tmp_path):
    program = """
import sys, webbrowser
from nki.cli import main

webbrowser.open = lambda address: print("opened", address, file=sys.stderr, flush=True)
sys.exit(main(sys.argv[1:]))
"""
    (tmp_path / "many.py").write_text(KERNELS)
    (tmp_path / "script.py").write_text(program)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, str(tmp_path / "script.py"), "profile", f"{tmp_path}/many.py:twice", *SCALED, "--open"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            lines = iter(process.stderr.readline, "")
            address = next(line.split()[1] for line in lines if line.startswith("opened"))
            status, page = fetched(address)
            assert status == 200 and page.startswith(b"<!doctype html>") and b"twice" in page
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=20) == 0
        finally:
            process.kill()


def test_progress_is_for_terminals(file, nki, capsys, monkeypatch):
    shown: list[str] = []
    monkeypatch.setattr("nki.cli.terminal_progress._show", shown.append)
    assert nki(f"{file}:scaled", *SCALED).code == 0
    assert shown[0] == "compiling scaled for trn3" and shown[-1] == ""
    assert any(text.startswith("replaying 3 instructions") for text in shown)


def test_json_has_what_the_text_shows(file, nki):
    words = (f"{file}:twice", "--arg", "1x128:float32", "--arg", "2.0", "--target", "trn2")
    session = json.loads(nki(*words, "--json").out)["twice on trn2"]
    report = nki(*words).out
    for each in session["advice"]:
        assert f"{duration(each['seconds'])} less: {each['title']}" in report
        assert each["evidence"] and each["remedy"]
        assert all(Path(line["file"]).name == "many.py" for line in each["lines"])
    assert session["advice"]
    for each in session["lines"]:
        assert f"many.py:{each['line']}" in report and each["code"][:20] in report
    assert sum(each["seconds"] for each in session["parts"]) == pytest.approx(session["latency"])
    for use in session["engines"]:
        assert use["busy"] + use["stalled"] + use["idle"] == pytest.approx(session["device_time"])
        stalls = [each["seconds"] for each in session["stalls"] if each["engine"] == use["engine"]]
        assert sum(stalls) == pytest.approx(use["stalled"])
    assert session["interval"]["least"] == session["latency_min"] <= session["latency_max"]
    assert {each["facts"] for each in session["interval"]["ends"]} == {"fast", "slow"}
    assert sum(each["bytes"] for each in session["transfers"]) == session["dma_transfer_total_bytes"]
    assert {each["memory"] for each in session["memory"]} == {"sbuf", "psum"}


ONLY_TRN2 = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def copied(x):
    t, u = nl.load(x), nl.ndarray(x.shape, x.dtype)
    nisa.tensor_copy(u, t, engine=nisa.engine.scalar)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, u)
    return out
"""


@pytest.mark.parametrize("order", [("trn1", "trn2", "trn3"), ("trn2", "trn1"), ("trn1", "trn2")])
def test_a_target_that_refuses_does_not_hide_the_others(order, file, nki):
    Path("newer.py").write_text(ONLY_TRN2, encoding="utf-8")
    words = ("newer.py", "--arg", "128x64:float32", *(word for name in order for word in ("--target", name)))
    ran = nki(*words)
    assert ran.code == 1 and "copied on trn1:\n[NKI-EN001" in ran.err and "copied on trn2" in ran.out
    ran = nki(*words, "--json")
    sessions = json.loads(ran.out)
    assert ran.code == 1 and list(sessions) == [f"copied on {name}" for name in order]
    assert sessions["copied on trn1"]["code"] == "NKI-EN001" and sessions["copied on trn1"]["severity"] == "error"
    assert all("latency" in sessions[f"copied on {name}"] for name in order if name != "trn1")


def test_all_targets_refuse(file, nki):
    words = (f"{file}:wrong", "--arg", "128x256:float32", "--target", "trn1", "--target", "trn2")
    ran = nki(*words)
    assert ran.code == 1 and ran.out == "" and ran.err.count("NKI-KN003") == 2
    sessions = json.loads(nki(*words, "--json").out)
    assert [(title, each["code"]) for title, each in sessions.items()] == [
        ("wrong on trn1", "NKI-KN003"),
        ("wrong on trn2", "NKI-KN003"),
    ]


def test_a_launch_that_one_target_refuses(file, nki):
    words = (f"{file}:halves", "--arg", "256x64:float32", "--cores", "2", "--target", "trn1", "--target", "trn2")
    ran = nki(*words)
    assert ran.code == 2 and "--cores 2: a kernel on trn1 runs on at most 1" in ran.err and "halves on trn2" in ran.out
    sessions = json.loads(nki(*words, "--json").out)
    assert [each.get("code") for each in sessions.values()] == ["usage", None]


@pytest.mark.parametrize(
    ("first", "second", "columns"),
    [
        ("a.py:k", "b.py:k", ["a.py:k on trn2", "b.py:k on trn2"]),
        ("one/a.py:k", "two/a.py:k", ["one/a.py:k on trn2", "two/a.py:k on trn2"]),
        ("one/a.py:k", "a.py:k", None),
        ("a.py:k", "a.py:k", ["k on trn2", "k on trn2 (2)"]),
        ("a.py:k", "a.py:k2", ["k on trn2", "k2 on trn2"]),
    ],
)
def test_columns_tell_kernels_apart(first, second, columns, tmp_path, nki, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (
        "import nki, nki.language as nl\n\n\n@nki.jit\ndef k(x):\n    t = nl.{}(nl.load(x))\n"
        "    o = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)\n    nl.store(o, t)\n    return o\n"
    )
    for name, function in (("a", "exp"), ("b", "tanh"), ("one/a", "exp"), ("two/a", "tanh")):
        Path(name).parent.mkdir(exist_ok=True)
        kernel = text.format(function)
        Path(f"{name}.py").write_text(kernel + kernel.replace("def k(", "def k2("), encoding="utf-8")
    words = (first, "--arg", "128x512:float32", "--target", "trn2", "--compare", second)
    sessions = json.loads(nki(*words, "--json").out)
    head = nki(*words).out.splitlines()[0]
    assert len(set(sessions)) == 2 and all(title in head for title in sessions)
    if columns is not None:
        assert list(sessions) == columns
    one, other = sessions.values()
    assert other["comparison"]["to"] == next(iter(sessions)) and "comparison" not in one
    assert other["comparison"]["speedup"] == pytest.approx(one["latency"] / other["latency"])
    measures = {each["measure"]: each for each in other["comparison"]["differences"]}
    assert (measures["latency"]["first"], measures["latency"]["second"]) == (one["latency"], other["latency"])


def test_one_target_twice(file, nki):
    sessions = json.loads(nki(f"{file}:scaled", *SCALED, "--target", "trn2", "--target", "trn2", "--json").out)
    assert list(sessions) == ["scaled on trn2", "scaled on trn2 (2)"]


HELPERS = """
import nki
import nki.isa as nisa
import nki.language as nl


def plus(x, by):
    t = nl.load(x)
    nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=by)
    return t


def twice(x):
    first = plus(x, 1.0)
    return nl.add(first, plus(x, 2.0))


@nki.jit
def called(x):
    a = twice(x)
    b = twice(x)
    c = plus(x, 3.0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.add(a, b), c))
    return out
"""


def test_lines_by_call(file, nki):
    Path("helpers.py").write_text(HELPERS, encoding="utf-8")
    lines = HELPERS.splitlines()
    load, kernel = lines.index("    t = nl.load(x)") + 1, lines.index("    a = twice(x)") + 1
    inner = lines.index("    first = plus(x, 1.0)") + 1
    words = ("helpers.py", "--arg", "128x512:float32", "--target", "trn2")
    (session,) = json.loads(nki(*words, "--json").out).values()
    by_line = {each["line"]: each for each in session["lines"]}
    paths = [[call["line"] for call in each["calls"]] for each in by_line[load]["callers"]]
    wanted = [[kernel + n, inner + m] for n in (0, 1) for m in (0, 1)]
    assert sorted(paths) == sorted([*wanted, [kernel + 2]])
    for number in ("critical", "busy", "hbm_bytes", "executions"):
        assert sum(each[number] for each in by_line[load]["callers"]) == pytest.approx(by_line[load][number])
    assert by_line[lines.index("    nl.store(out, nl.add(nl.add(a, b), c))") + 1]["callers"] == []
    codes = {each["calls"][-1]["code"] for each in by_line[load]["callers"]}
    assert codes == {"plus(x, 1.0)", "plus(x, 2.0)", "plus(x, 3.0)"}
    calls = {(each["call"]["line"], each["call"]["code"]): each for each in session["calls"]}
    assert calls[kernel, "twice(x)"]["executions"] == 5 and calls[kernel + 2, "plus(x, 3.0)"]["executions"] == 2
    assert calls[inner, "plus(x, 1.0)"]["executions"] == 4  # in both calls of the function around it

    text = nki(*words).out
    assert text.count(f"from helpers.py:{kernel}") >= 2 and "from 2 other calls" in text
    whole = nki(*words, "--lines", "all").out
    for n, m in ((0, 0), (0, 1), (1, 0), (1, 1)):
        assert f"from helpers.py:{kernel + n} > {inner + m}" in whole
    assert "other call" not in whole


def test_two_calls_on_one_line_are_told_apart(file, nki):
    text = HELPERS.replace(
        "    first = plus(x, 1.0)\n    return nl.add(first, plus(x, 2.0))",
        "    return nl.add(plus(x, 1.0), plus(x, 2.0))",
    )
    Path("one_line.py").write_text(text, encoding="utf-8")
    (session,) = json.loads(nki("one_line.py", "--arg", "128x512:float32", "--json").out).values()
    assert {"plus(x, 1.0)", "plus(x, 2.0)"} <= {each["call"]["code"] for each in session["calls"]}
    assert "nl.add(plus(x, 1.0), plus(x, 2.0))" not in {each["call"]["code"] for each in session["calls"]}


def test_lines_that_are_asked_for(file, nki):
    body = "".join(f"    nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0={n}.0)\n" for n in range(20))
    text = HELPERS.split("def plus")[0] + "@nki.jit\ndef long(x):\n    t = nl.load(x)\n" + body
    text += "    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n    nl.store(out, t)\n    return out\n"
    Path("long.py").write_text(text, encoding="utf-8")
    words = ("long.py", "--arg", "128x64:float32", "--target", "trn2")

    def listed(*more: str) -> int:
        return sum("  long.py:" in line for line in nki(*words, *more).out.partition("most memory")[0].splitlines())

    assert (listed(), listed("--lines", "12"), listed("--lines", "all"), listed("--lines", "99")) == (8, 12, 22, 22)
    assert "14 other lines" in nki(*words).out and "--lines all" in nki(*words).out
    assert len(next(iter(json.loads(nki(*words, "--json").out).values()))["lines"]) == 22
    for wrong in ("0", "-3", "many", ""):
        ran = nki(*words, f"--lines={wrong}")
        assert ran.code == 2 and f"--lines {wrong}" in ran.err and "a number" in ran.err
