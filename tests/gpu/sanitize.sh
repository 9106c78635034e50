#!/usr/bin/env bash
# Run a part of the GPU suite under compute-sanitizer: memcheck, then racecheck. Takes minutes.
#
#   tests/gpu/sanitize.sh [PYTHON [PYTEST ARGUMENTS...]]
#
# Exits with 77 where there is no device or no tool, and says so. COMPUTE_SANITIZER may name the
# tool, SELECT the tests (an expression of pytest -k).
set -euo pipefail
cd "$(dirname "$0")/../.."
python="${1:-python3}"
shift || true
select="${SELECT:-diffusion or columns or masked or golden and not emulated}"

tool="${COMPUTE_SANITIZER:-$(command -v compute-sanitizer || true)}"
if [ -z "$tool" ]; then
  for found in /usr/local/cuda*/bin/compute-sanitizer; do
    if [ -x "$found" ]; then tool="$found"; fi
  done
fi
if [ -z "$tool" ]; then
  echo "compute-sanitizer was not found; it comes with the CUDA toolkit." >&2
  exit 77
fi
if ! "$python" -c 'import cupy; cupy.cuda.runtime.getDeviceCount()' >/dev/null 2>&1; then
  echo "There is no CUDA device here, or no CuPy in '$python'." >&2
  exit 77
fi

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
# CuPy's pool hands out parts of larger pieces, behind whose ends the tool sees no error.
printf 'import cupy\ncupy.cuda.set_allocator(None)\n' >"$work/without_pool.py"
export PYTHONPATH="$work${PYTHONPATH:+:$PYTHONPATH}"
# The smoke script runs the interpreter it is given: this one, under the tool. Compilers and other
# children are left alone.
cat >"$work/python" <<INNER
#!/usr/bin/env bash
case " \$* " in
  *" -m pytest "*)
    exec "$tool" --tool "\$SANITIZER" --error-exitcode 99 --launch-timeout 0 \\
      --target-processes application-only --print-limit 20 "$python" "\$@" ;;
  *) exec "$python" "\$@" ;;
esac
INNER
chmod +x "$work/python"

for check in memcheck racecheck; do
  echo "== $check"
  SANITIZER="$check" bash tests/benchmarks/gpu_smoke.sh "$work/python" \
    -x -p without_pool -k "(gpu or (cuda and not emulated)) and ($select)" "$@"
done
