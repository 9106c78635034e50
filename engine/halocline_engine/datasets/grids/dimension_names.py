"""Names that models and libraries give to the dimensions of I, J and K, and to others.

`docs/datasets-and-boundaries.md` shows the table. Names are compared in lower case. A name may end
as dimensions of staggered points do: `x_f`, `xq`, `lon_u`, `lev_2`. What is not in the table is
left to the patterns of cf_xarray, but for those of one letter, which `zone` and `index` match.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from cf_xarray import criteria  # pyright: ignore[reportMissingTypeStubs]

from halocline_engine.ir.types import Axis

__all__ = ["DIMENSION_NAMES", "axis_named", "is_parametric", "is_time_or_member"]

#: Dimensions of I, J and K by the models that write them, separated by blanks.
DIMENSION_NAMES: Mapping[str, tuple[str, str, str]] = {
    "CF, CMIP": (
        "x i lon longitude rlon grid_longitude",
        "y j lat latitude rlat grid_latitude",
        "z k lev level levels plev height depth altitude alt olevel alevel alevhalf olevhalf"
        " model_level_number",
    ),
    "ERA5, GRIB": (
        "longitude",
        "latitude",
        "level pressure_level model_level pressure hybrid sigma theta isobaricInhPa isobaricInPa"
        " generalVertical generalVerticalLayer heightAboveGround heightAboveSea depthBelowLand"
        " depthBelowLandLayer depthBelowSea",
    ),
    "WRF": (
        "west_east west_east_stag",
        "south_north south_north_stag",
        "bottom_top bottom_top_stag soil_layers soil_layers_stag num_press_levels_stag",
    ),
    "ROMS": ("xi_rho xi_u xi_v xi_psi", "eta_rho eta_u eta_v eta_psi", "s_rho s_w"),
    "NEMO": ("x x_c x_f", "y y_c y_f", "deptht depthu depthv depthw depthf nav_lev z_c z_f"),
    "MOM": (
        "xh xq lonh lonq xt_ocean xu_ocean",
        "yh yq lath latq yt_ocean yu_ocean",
        "zl zi z_l z_i layer interface rho2_l rho2_i st_ocean sw_ocean st_edges_ocean"
        " sw_edges_ocean",
    ),
    "MITgcm": ("i i_g xc xg xp1", "j j_g yc yg yp1", "k k_l k_u k_p1 zl zu zp1"),
    "ICON, COSMO": ("rlon srlon", "rlat srlat", "height height_2 height_3 level level1"),
    "CESM, FV3": (
        "nlon ni slon grid_x grid_xt",
        "nlat nj slat grid_y grid_yt",
        "ilev z_t z_w z_w_top z_w_bot levgrnd levsoi pfull phalf",
    ),
    "others": ("nx nlon", "ny nlat", "nz nk nlev nlevs zc zf vertical"),
}

_TIMES = (
    "time t times ocean_time time_counter valid_time xtime date mt month season year dayofyear hour"
    " leadtime lead_time forecast_period forecast_reference_time reference_time init"
)
_MEMBERS = (
    "member members member_id ens ensemble realization realisation number model experiment scenario"
    " expver variable band bnds nv nbnd nbounds axis_nbounds step tile"
)
_OTHERS = frozenset(f"{_TIMES} {_MEMBERS}".split())

#: What staggered dimensions end with: (bare) behind x, y and z, the others behind "_" too.
_POINTS = "c|f|t|u|v|w|h|q|g|l|r|m|b"
_ENDINGS = (
    rf"{_POINTS}|s|p1|rho|psi|stag|left|right|cent(er|re)|outer|inner|faces?|edges?|half|full|"
    r"corners?|interface|caa|faa|aca|afa|aac|aaf|grid_[a-z]|\d{1,2}"
)
_STAGGERED = re.compile(
    rf"(?P<base>[xyz])({_POINTS}|p1)|(?P<name>[a-z_]+?)(_({_ENDINGS})|(?<=...)\d)"
)

_AXES = (Axis.I, Axis.J, Axis.K)
_KNOWN = {
    name.lower(): axis
    for row in DIMENSION_NAMES.values()
    for axis, names in zip(_AXES, row, strict=True)
    for name in names.split()
}
_PATTERNS: Mapping[str, re.Pattern[str]] = cast("Any", criteria).regex
_GUESSES = {Axis.I: "longitude", Axis.J: "latitude", Axis.K: "Z"}
#: Vertical coordinates without a unit: neither heights nor depths.
_PARAMETRIC = re.compile(r"s_(rho|w)|sc_[rw]|sigma.*|siglay|siglev|hybrid|eta|nlev.*|theta")


def axis_named(dim: str) -> Axis | None:
    """Return the axis of which a dimension is by its name, or None.

    >>> axis_named("bottom_top_stag"), axis_named("lon_u"), axis_named("station")
    (<Axis.K: 'K'>, <Axis.I: 'I'>, None)
    """
    name = dim.lower()
    if is_time_or_member(dim):
        return None
    match = _STAGGERED.fullmatch(name)
    for known in (name, (match["base"] or match["name"]) if match else ""):
        if known in _KNOWN:
            return _KNOWN[known]
    patterns = {axis: _PATTERNS[guess] for axis, guess in _GUESSES.items()}
    guesses = (axis for axis, one in patterns.items() if one.fullmatch(name))
    return None if name.startswith("z") else next(guesses, None)


def is_time_or_member(dim: str) -> bool:
    """Whether a dimension is one of times, members or the like by its name: no axis of a grid."""
    return dim.lower() in _OTHERS or _PATTERNS["T"].fullmatch(dim.lower()) is not None


def is_parametric(name: str) -> bool:
    """Whether a vertical coordinate has no unit by its name, such as the s of ROMS."""
    return _PARAMETRIC.fullmatch(name.lower()) is not None
