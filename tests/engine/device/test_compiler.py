"""The compiler for CUDA needs no device: NVRTC comes with NVIDIA's wheel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_cupy import DriverFailure

from halocline_engine.device.compile import compiler, modules, nvrtc
from halocline_engine.device.compile.compiler import compile_source, compiler_identity, find_nvrtc
from halocline_engine.device.compile.modules import DeviceKernels
from halocline_engine.errors import DeviceError

GOOD = 'extern "C" __global__ void twice(double* a) { a[threadIdx.x] *= 2.0; }\n'
BAD = 'extern "C" __global__ void twice(double* a) { a[threadIdx.x] *= missing; }\n'


def test_the_compiler_is_there() -> None:
    assert "nvrtc" in find_nvrtc()


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
def test_code_for_several_devices(architecture: str) -> None:
    code = compile_source(GOOD, architecture)
    assert code.startswith(b"\x7fELF")
    assert b"twice" in code


def test_code_that_does_not_compile_is_refused_with_the_compilers_words() -> None:
    with pytest.raises(DeviceError) as caught:
        compile_source(BAD, "sm_90")
    assert caught.value.message == "The CUDA compiler failed for 'sm_90' with status 1."
    assert 'halocline.cu(1): error: identifier "missing" is undefined' in caught.value.hint


def test_a_compiler_that_takes_too_long_is_stopped() -> None:
    with pytest.raises(DeviceError) as caught:
        compile_source(GOOD, "sm_90", limit=0.001)
    assert str(caught.value) == (
        "The CUDA compiler was stopped after 0.001 seconds. Split the program into smaller ones."
    )


def test_a_compiler_that_dies_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    crash = tmp_path / "crash.py"
    crash.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    monkeypatch.setattr(compiler, "nvrtc", SimpleNamespace(__file__=str(crash)))
    with pytest.raises(DeviceError) as caught:
        compile_source(GOOD, "sm_90")
    assert caught.value.message == "The CUDA compiler failed for 'sm_90' with status -9."


def test_a_missing_compiler_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "_from_pathfinder", lambda: iter(()))
    monkeypatch.setattr(compiler, "_from_wheels", lambda: iter(()))

    def nowhere(_name: str) -> None:
        return None

    monkeypatch.setattr("ctypes.util.find_library", nowhere)
    with pytest.raises(DeviceError) as caught:
        find_nvrtc.__wrapped__()
    assert str(caught.value) == (
        "The compiler for CUDA, the library 'nvrtc', was not found."
        " Install 'halocline[cuda13]' or 'halocline[cuda12]', or a CUDA toolkit."
    )


def test_the_identity_names_what_code_depends_on() -> None:
    assert compiler_identity("sm_80") != compiler_identity("sm_90")
    assert "--fmad=false" in compiler_identity("sm_90")
    assert str(Path(find_nvrtc()).resolve()) in compiler_identity("sm_90")


def test_the_script_imports_nothing_of_its_package() -> None:
    code = (
        "import runpy, sys\n"
        f"runpy.run_path({nvrtc.__file__!r}, run_name='looked_at')\n"
        "assert not [name for name in sys.modules if name.startswith(('halocline', 'numpy'))]\n"
    )
    subprocess.run([sys.executable, "-I", "-c", code], check=True)


def test_what_a_device_refuses_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Module:
        def load(self, code: bytes) -> None:
            if not code:
                raise DriverFailure("no image")

        def get_function(self, name: str) -> None:
            raise DriverFailure(f"no {name}")

    cuda = SimpleNamespace(
        driver=SimpleNamespace(CUDADriverError=DriverFailure),
        function=SimpleNamespace(Module=Module),
    )
    monkeypatch.setattr(modules, "cupy", lambda: SimpleNamespace(cuda=cuda))
    with pytest.raises(DeviceError) as caught:
        DeviceKernels(b"")
    assert str(caught.value) == "The device did not load compiled code: no image."
    with pytest.raises(DeviceError) as caught:
        DeviceKernels(b"code").launch("twice", (1, 1, 1), (1, 1, 1), ())
    assert str(caught.value) == "Kernel 'twice' could not be launched: no twice."
