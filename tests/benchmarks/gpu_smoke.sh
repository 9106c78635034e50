#!/usr/bin/env bash
# Run the tests that need a CUDA device, where there is one: tests/gpu, and the golden cases on it.
#
# Needs python with NumPy, CuPy and pytest; nothing is installed, and no plugin of pytest is used.
# The first argument may be another python; the rest goes to pytest.
set -euo pipefail
cd "$(dirname "$0")/../.."
python="${1:-python3}"
shift || true
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# The project's own settings name options of plugins, which strict settings refuse without them.
cat >"$work/pytest.ini" <<INI
[pytest]
addopts = --import-mode=importlib --strict-markers -ra -p no:cacheprovider
filterwarnings = error
pythonpath = $PWD/tests/engine/cuda $PWD/tests/support $PWD/benchmarks
markers =
    gpu: needs a CUDA device
INI

# A tree that is not installed has no version, and the engine asks for it.
if ! "$python" -c 'from importlib.metadata import version; version("halocline")' 2>/dev/null; then
  mkdir "$work/halocline-0.dist-info"
  printf 'Metadata-Version: 2.1\nName: halocline\nVersion: 0+tree\n' \
    >"$work/halocline-0.dist-info/METADATA"
fi

PYTHONPATH="$PWD/engine:$work${PYTHONPATH:+:$PYTHONPATH}" "$python" -m pytest \
  -c "$work/pytest.ini" --rootdir "$PWD" tests/gpu tests/golden \
  -k "gpu or (cuda and not emulated)" "$@"
