"""`halocline-server`, or the sentence that says what is not installed for it."""

from __future__ import annotations

import sys
from importlib.util import find_spec

__all__ = ["main"]


def main() -> None:
    """Run the command; status 1 if the extra 'service' is not installed."""
    try:
        from halocline_service.commands import main as run
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package.startswith("halocline") or find_spec(package) is not None:
            raise  # something is wrong within a package that is installed
        sys.exit(
            f"halocline-server needs the package '{package}', which is not installed."
            " Install the extra 'service': pip install 'halocline[service]'."
        )
    run()


if __name__ == "__main__":
    main()
