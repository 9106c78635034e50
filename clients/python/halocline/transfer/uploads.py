"""Uploads of datasets: opening of files, choice of variables, and transfer."""

from __future__ import annotations

import difflib
import glob
import os
import tempfile
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast, runtime_checkable
from urllib.parse import quote

from halocline.connection import Connection
from halocline.errors import ArgumentError, DatasetError, FieldError
from halocline.inputs.arguments import limited, text
from halocline.transfer.sending import send_store
from halocline_engine.arguments import address_scheme, dataset_hint
from halocline_engine.signatures import with_answers

if TYPE_CHECKING:
    import xarray as xr

__all__ = [
    "DatasetLike",
    "HasResult",
    "Reference",
    "Uploads",
    "is_reference",
    "needed",
    "nowhere",
    "opened",
    "opened_files",
    "sendable",
    "upload",
]


@runtime_checkable
class HasResult(Protocol):
    """A job that can be passed as a dataset."""

    @property
    def id(self) -> str:
        """Id of the job."""
        ...

    @property
    def url(self) -> str:
        """Address of the service."""
        ...

    def result_url(self) -> object:
        """Wait, and return the address of the result, or a coroutine."""
        ...


DatasetLike: TypeAlias = "xr.Dataset | xr.DataArray | HasResult | str | Path | Sequence[str | Path]"

#: Prefixes of references; other texts with colons are paths.
_REFERENCES = ("upload:", "job:", "file:", "http://", "https://")
_FORBIDDEN = 403
_OPEN_IT = "Open it with xarray.open_zarr or xarray.open_dataset, and pass the dataset."
#: Packages that read files, by the first bytes of the file.
_READERS: Mapping[bytes, tuple[str, ...]] = {
    b"CDF": ("netCDF4", "scipy"),
    b"\x89HDF": ("netCDF4", "h5netcdf"),
}


@with_answers
class Uploads:
    """Uploads of a service, as `client.uploads`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self, limit: int = 100) -> list[dict[str, Any]]:
        """Return the documents of the newest uploads, newest first.

        Parameters
        ----------
        limit : int, default: 100
            Number of uploads, up to 1000.

        Returns
        -------
        list of dict
            The documents.

        """
        answer = self._connection.get("/uploads", needs=("uploads",), limit=limited("limit", limit))
        return cast("list[dict[str, Any]]", answer["uploads"])

    def remove(self, reference: str) -> None:
        """Delete an upload; jobs that have read it are kept.

        Parameters
        ----------
        reference : str
            Id of the upload, or 'upload:<id>'.

        Raises
        ------
        ConflictError
            An unfinished job reads it.
        NotFoundError
            The upload does not exist.

        """
        named = text("reference", reference)
        identity = quote(named.removeprefix("upload:"), safe="")
        self._connection.send("DELETE", f"/uploads/{identity}")


@dataclass(frozen=True, slots=True)
class Reference:
    """A dataset of a request, uploaded if it is on this machine.

    An xarray object is uploaded. A Job means its result. A text that begins with `upload:`, `job:`,
    `file:` or `http` is a reference. Any other text or `Path` is a path: if it exists, it is opened
    and uploaded; otherwise it is sent unchanged, and refers to the folders of the service. Files
    given as a list or as a pattern with `*`, `?` or `[` are joined and uploaded. Only `variables`
    are uploaded if the dataset has any of them, otherwise all. With `complete`, the dataset must
    have all of them.
    """

    connection: Connection
    dataset: DatasetLike
    variables: Iterable[str] = ()
    complete: bool = False

    def __call__(self) -> str:
        """Upload a local dataset, and return the reference."""
        with self._open_local() as dataset:
            if dataset is not None:
                named = () if _is_array(self.dataset) else self.variables
                return upload(self.connection, dataset, named, complete=self.complete)
        if isinstance(self.dataset, HasResult):
            return _result_of(self.connection, self.dataset)
        if isinstance(self.dataset, str) and is_reference(self.dataset):
            return _named_by(self.connection, self.dataset)
        return str(self.dataset)

    def is_named(self, name: str) -> bool:
        """Say whether the dataset was given by a name, as a path or a reference."""
        return isinstance(self.dataset, str | Path) and str(self.dataset) == name

    def outline(self) -> dict[str, Any] | None:
        """Return the outline of a local dataset, otherwise None."""
        from halocline_engine.datasets.storing.outline import outline_of

        with self._open_local() as dataset:
            return None if dataset is None else outline_of(dataset)

    @contextmanager
    def _open_local(self) -> Generator[xr.Dataset | None]:
        """Open a local dataset, or yield None; raises ArgumentError for other types."""
        import xarray as xr

        given: object = self.dataset
        match given:
            case xr.Dataset():
                yield given
            case xr.DataArray():
                yield _named(given)
            case HasResult():
                yield None
            case str() if is_reference(given):
                yield None
            case list() | tuple():
                with _opened_all(_paths(cast("Sequence[object]", given))) as dataset:
                    yield dataset
            case str() | Path():
                path = Path(given).expanduser()
                if os.path.exists(path) or glob.has_magic(str(given)):
                    with opened_files(str(given)) as dataset:
                        yield dataset
                else:
                    _refuse_scheme(str(given))
                    yield None
            case _:
                raise ArgumentError(
                    "A dataset must be an xarray Dataset or DataArray, a Job, a reference or a "
                    f"path, got '{type(given).__name__}'.",
                    hint=dataset_hint(given),
                )


def is_reference(name: str) -> bool:
    """Say whether a name is for the service alone, and no path of this machine."""
    return name.startswith(_REFERENCES)


def _refuse_scheme(given: str) -> None:
    """Raise where a dataset is an address that neither this machine nor a service reads."""
    if scheme := address_scheme(given):
        raise DatasetError(
            f"Dataset '{given}' cannot be read: '{scheme}:' addresses are not supported, and no "
            "object stores yet.",
            hint=f"{_OPEN_IT} Or name a file, a Zarr store, 'upload:ID' or 'job:ID'.",
        )


def nowhere(given: str, error: DatasetError) -> DatasetError:
    """Return the error for a path that neither this machine nor the service has."""
    there = "may not read it" if error.status == _FORBIDDEN else "has no dataset of this name"
    made = DatasetError(
        f"Dataset '{given}' is not on this machine, and the service {there}.",
        hint=f"There is no '{Path(given).expanduser().absolute()}' here. 'client.datasets()' lists "
        "the datasets of the service.",
    )
    made.status = error.status
    made.problem = {**error.problem, "detail": made.message, "hint": made.hint}
    return made


def _is_array(dataset: object) -> bool:
    return hasattr(dataset, "to_dataset")


def _matching(pattern: str) -> list[str | Path]:
    """Return the local files that match a pattern, sorted by name."""
    matching = sorted(glob.glob(str(Path(pattern).expanduser())))
    if not matching:
        raise DatasetError(
            f"No file here matches '{pattern}'.",
            hint="Check the pattern with 'ls', or pass the files as a list.",
        )
    return [*matching]


def _paths(given: Sequence[object]) -> list[str | Path]:
    """Return a list of paths; raises ArgumentError if it is empty or has other elements."""
    if not given:
        raise ArgumentError(
            "A list of datasets must have at least one path, got none.",
            hint="Write for example ['january.nc', 'february.nc'].",
        )
    paths: list[str | Path] = []
    for one in given:
        if not isinstance(one, str | Path):
            raise ArgumentError(
                f"A list of datasets must have paths, got the {type(one).__name__} among them.",
                hint="Join datasets with xarray.concat, and pass the result.",
            )
        text("dataset", str(one))
        paths.append(one)
    return paths


@contextmanager
def opened_files(named: str) -> Generator[xr.Dataset]:
    """Open a file or a Zarr store, or join all files that match a pattern."""
    path = Path(named).expanduser()
    is_pattern = glob.has_magic(named) and not os.path.exists(path)
    with _opened_all(_matching(named) if is_pattern else [path]) as dataset:
        yield dataset


@contextmanager
def _opened_all(paths: Sequence[str | Path]) -> Generator[xr.Dataset]:
    with ExitStack() as stack:
        parts = [stack.enter_context(opened(Path(one).expanduser())) for one in paths]
        yield _joined(paths, parts)


def _joined(names: Sequence[str | Path], parts: Sequence[xr.Dataset]) -> xr.Dataset:
    from halocline_engine.datasets.storing.joining import join_datasets, joint_of

    if len(parts) == 1:
        return parts[0]
    joint = joint_of([(str(n), p) for n, p in zip(names, parts, strict=True)], DatasetError)
    ordered: list[Any] = [parts[at] for at in joint.order]

    def read(at: int, name: str, region: tuple[slice, ...]) -> Any:
        return ordered[at].variables[name][region].values

    return join_datasets(ordered, joint, read)


def _result_of(connection: Connection, job: HasResult) -> str:
    """Return the reference of a job's result; the job must be of this service."""
    here = connection.settings.url
    if job.url != here:
        raise DatasetError(
            f"Job '{job.id}' is at '{job.url}', but the new one is for '{here}'.",
            hint="Pass 'job.result()', which is uploaded.",
        )
    return f"job:{job.id}"


def _named_by(connection: Connection, given: str) -> str:
    """Return a reference; raises DatasetError for an address of another service."""
    own = connection.settings.url
    if given.startswith(("http://", "https://")) and not given.startswith(f"{own}/"):
        raise DatasetError(
            f"The address '{given}' is not one of the service at '{own}'.",
            hint=_OPEN_IT,
        )
    return given


def sendable(argument: str, given: Any) -> xr.Dataset:
    """Return an argument as a dataset; raises ArgumentError if it is no xarray object."""
    import xarray as xr

    if isinstance(given, xr.DataArray):
        return _named(given)
    if not isinstance(given, xr.Dataset):
        raise ArgumentError(
            f"Argument '{argument}' must be an xarray Dataset, got '{type(given).__name__}'.",
            hint=dataset_hint(given),
        )
    return given


def upload(
    connection: Connection,
    dataset: xr.Dataset,
    variables: Iterable[str],
    *,
    complete: bool = False,
    keep: bool = False,
) -> str:
    """Upload a dataset as Zarr, unless the service has it, and return `upload:<id>`.

    The dataset is first written to a temporary folder, chunk by chunk, so that it may be larger
    than memory. With `keep`, the upload is kept until it is removed, otherwise until the last job
    that reads it is removed.
    """
    from halocline_engine.datasets.storing.attributes import drop_decoding_attributes
    from halocline_engine.datasets.storing.checks import check_storable, warn_of_left_out
    from halocline_engine.datasets.storing.writing import load_objects

    chosen = load_objects(needed(dataset, variables, complete=complete))
    check_storable(chosen, DatasetError)
    warn_of_left_out(drop_decoding_attributes(chosen)[1])
    with tempfile.TemporaryDirectory(prefix="halocline-") as folder:
        root = Path(folder) / "data.zarr"
        _write(chosen, root)
        return send_store(connection, root, keep=keep)


def _write(dataset: xr.Dataset, root: Path) -> None:
    """Write a dataset as Zarr, with encodings of other formats removed.

    The service adds the consolidated metadata.
    """
    from halocline_engine.datasets.storing.writing import store_values

    store_values(_evenly_chunked(dataset), root)


def _evenly_chunked(dataset: xr.Dataset) -> xr.Dataset:
    """Return a dataset whose Dask arrays have chunks of equal size, as Zarr requires."""
    made = cast("Any", dataset).copy()
    for name, variable in dataset.variables.items():
        uneven = {
            dim: max(sizes)
            for dim, sizes in variable.chunksizes.items()
            if len({*sizes[:-1], max(sizes)}) > 1
        }
        if uneven:
            made[name] = made[name].chunk(uneven)
    return made


def needed(dataset: xr.Dataset, variables: Iterable[str], *, complete: bool = False) -> xr.Dataset:
    """Return the given variables of a dataset with their coordinates, or all if it has none.

    The part is those `variables` that the dataset has, with their coordinates and bounds, or all of
    it where it has none of them; with `complete`, one that it lacks is a FieldError.
    """
    wanted = list(dict.fromkeys(variables))
    present = [name for name in wanted if name in dataset.variables]
    if complete and len(present) < len(wanted):
        lacking = next(name for name in wanted if name not in present)
        raise FieldError(
            f"The dataset has no variable '{lacking}'.", hint=_near(lacking, dataset.variables)
        )
    return dataset[[*present, *_bounds(dataset, present)]] if present else dataset


def _bounds(dataset: xr.Dataset, present: Iterable[str]) -> list[str]:
    """Return the variables with the bounds of coordinates along one dimension, such as times."""
    along = (dataset[dim] for dim in dataset[[*present]].dims if dim in dataset.variables)
    told = (one.attrs.get("bounds", one.encoding.get("bounds")) for one in along)
    return [str(name) for name in dict.fromkeys(told) if name in dataset.variables]


def _near(name: str, known: Iterable[object]) -> str:
    """Return the hint for an unknown name."""
    names = [str(one) for one in known]
    close = difflib.get_close_matches(str(name), names, n=1)
    if close:
        return f"Did you mean '{close[0]}'?"
    return f"There are {', '.join(repr(one) for one in names)}." if names else ""


def _named(array: xr.DataArray) -> xr.Dataset:
    if array.name is None:
        raise DatasetError(
            "A DataArray without a name cannot be uploaded.",
            hint="Give it one with 'array.rename(...)', the name of the program's parameter.",
        )
    return array.to_dataset()


def _check_readable(path: Path) -> None:
    """Raise DatasetError if a NetCDF file needs a package that is not installed."""
    with suppress(OSError), path.open("rb") as file:
        start = file.read(4)
        readers = next((names for sign, names in _READERS.items() if start.startswith(sign)), ())
        if readers and not any(find_spec(name) for name in readers):
            raise DatasetError(
                f"'{path}' is a NetCDF file, which needs one of {', '.join(readers)} to be read.",
                hint="Install it: pip install 'halocline[netcdf]'.",
            )


#: Metadata files at the root of a Zarr store, of either format.
_ROOTS = ("zarr.json", ".zgroup", ".zmetadata")
#: Message of xarray for a file of an unknown format.
_UNKNOWN = "did not find a match"
#: Message of the NetCDF library for a damaged file.
_DAMAGED = "NetCDF: HDF error"


def opened(path: Path) -> xr.Dataset:
    """Open a file or a Zarr store that is here, without reading its arrays."""
    from halocline_engine.datasets.storing.foreign import refuse_foreign
    from halocline_engine.datasets.storing.opening import open_stored, open_zarr

    _check_readable(path)
    if path.is_dir() and not any((path / name).exists() for name in _ROOTS):
        raise DatasetError(
            f"The folder '{path}' is not a Zarr store: it has no {' and no '.join(_ROOTS)}.",
            hint="Pass the path of a Zarr store, or of a NetCDF file.",
        )
    try:
        if path.is_dir():
            return open_zarr(path)
        return open_stored(path)
    except (OSError, ValueError, KeyError) as error:
        if not os.path.exists(path):
            raise DatasetError(
                f"Dataset '{path}' is not on this machine.",
                hint=f"There is no '{path.absolute()}' here. Jobs also take the datasets that "
                "'client.datasets()' lists, by name.",
            ) from error
        refuse_foreign(path, DatasetError)
        if _UNKNOWN in str(error):
            raise DatasetError(
                f"The dataset '{path}' cannot be opened here: xarray does not recognise its "
                "format.",
                hint="If it should be NetCDF, it is damaged: 'ncdump -h' says more. Otherwise "
                "convert it to NetCDF or Zarr.",
            ) from error
        if _DAMAGED in str(error):
            raise DatasetError(
                f"The dataset '{path}' cannot be opened here: {error}",
                hint="It is damaged or incomplete: obtain it again.",
            ) from error
        raise DatasetError(
            f"The dataset '{path}' cannot be opened here: {error}",
            hint="Open it with xarray, and write it again with to_netcdf or to_zarr.",
        ) from error
