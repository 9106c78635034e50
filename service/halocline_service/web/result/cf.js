// The CF conventions: packed values, values that are missing, units, axes, and times.

import { calendarOf } from "./calendars.js";

/** Give values as they are meant: unpacked, and NaN where they are missing. */
export function decode(values, attributes) {
  const absent = [attributes._FillValue, attributes.missing_value].flat().filter(Number.isFinite);
  const scale = Number(attributes.scale_factor ?? 1);
  const offset = Number(attributes.add_offset ?? 0);
  if (absent.length === 0 && scale === 1 && offset === 0) return values;
  return values.map((value) => (absent.includes(value) ? NaN : value * scale + offset));
}

/** Give the units of a variable, or nothing. */
export function unitsOf(attributes) {
  const units = attributes.units ?? "";
  return typeof units === "string" && units !== "1" ? units : "";
}

/** Give the name for people. */
export function titleOf({ name, attributes }) {
  const long = attributes.long_name ?? attributes.standard_name;
  return typeof long === "string" && long !== name ? `${name}: ${long}` : name;
}

/** Give what writes a coordinate: a date where it is a time of a calendar that is known. */
export function writerOf({ units, calendar }, number) {
  const write = calendarOf(String(units ?? ""), String(calendar ?? "standard").toLowerCase());
  return write ? (value) => write(value) ?? number(value) : number;
}

/** Say whether values along a coordinate are drawn downwards, as depths and pressures are. */
export function isDownward(attributes) {
  return (
    attributes.positive === "down" || ["air_pressure", "depth"].includes(attributes.standard_name)
  );
}
