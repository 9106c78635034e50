// Times, durations, sizes and numbers in words.

/** Show the times of a part of the page in the reader's own zone. */
export function localTimes(part) {
  for (const time of part.querySelectorAll("time[datetime]")) {
    const when = new Date(time.dateTime);
    if (!Number.isNaN(when.getTime())) {
      time.textContent = clock(when);
      time.title = time.dateTime;
    }
  }
}

const pad = (number) => String(number).padStart(2, "0");

/** Write a moment; the day only if it is another than today. */
export function clock(when, now = new Date()) {
  const time = `${pad(when.getHours())}:${pad(when.getMinutes())}:${pad(when.getSeconds())}`;
  if (when.toDateString() === now.toDateString()) return time;
  return `${when.getFullYear()}-${pad(when.getMonth() + 1)}-${pad(when.getDate())} ${time}`;
}

/** Write a number of seconds. */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "—";
  if (seconds < 1) return `${Math.max(0, seconds).toFixed(2)} s`;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${pad(Math.floor(seconds % 60))} s`;
  return `${Math.floor(minutes / 60)} h ${pad(minutes % 60)} min`;
}

/** Write a number of bytes. */
export function size(bytes) {
  let [value, unit] = [bytes, "B"];
  for (const larger of ["KiB", "MiB", "GiB", "TiB", "PiB"]) {
    if (value < 1024) break;
    [value, unit] = [value / 1024, larger];
  }
  return unit === "B" ? `${value} B` : `${value.toFixed(1)} ${unit}`;
}

/** Write a large number with the prefix of its power of a thousand. */
export function scaled(number) {
  const prefixes = ["", "k", "M", "G", "T", "P", "E"];
  const power = Math.floor(Math.log10(Math.max(1, number)) / 3 + 1e-9);
  const place = Math.min(prefixes.length - 1, power);
  return `${Number((number / 1000 ** place).toPrecision(3))} ${prefixes[place]}`.trim();
}

/** Write a value with as many digits as tell it apart from others of a scale. */
export function figure(value, span = Math.abs(value)) {
  if (Number.isNaN(value)) return "no data";
  if (value === 0 || !Number.isFinite(value)) return String(value);
  const digits = Math.min(
    15,
    Math.max(4, 4 + Math.ceil(Math.log10(Math.abs(value) / (span || 1)))),
  );
  return String(Number(value.toPrecision(digits)));
}
