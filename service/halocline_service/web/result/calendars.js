// Times as 'days since ...', in the calendars of models as well as in the one of the world.

const SECONDS = { second: 1, minute: 60, hour: 3600, day: 86400 };
const SINCE =
  /^(second|minute|hour|day)s? since (\d{1,4})-(\d{1,2})-(\d{1,2})(?:[T ](\d{1,2}):(\d{2})(?::(\d{2}))?)?/;
const WORLD = ["standard", "gregorian", "proleptic_gregorian"];
const LONG = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
const MODELS = {
  "360_day": Array(12).fill(30),
  noleap: LONG,
  "365_day": LONG,
  all_leap: LONG.with(1, 29),
  "366_day": LONG.with(1, 29),
};

/** Give what writes a time; null where units or calendar are not known. */
export function calendarOf(units, calendar) {
  const found = SINCE.exec(units);
  if (!found) return null;
  const [year, month, day, hour, minute, second] = found.slice(2).map((part) => Number(part ?? 0));
  const clock = hour * 3600 + minute * 60 + second;
  if (WORLD.includes(calendar)) {
    const start = new Date(Date.UTC(2000, month - 1, day));
    start.setUTCFullYear(year);
    return (value) => world(start.getTime() + (clock + value * SECONDS[found[1]]) * 1000);
  }
  const months = MODELS[calendar];
  if (!months) return null;
  const length = months.reduce((sum, days) => sum + days, 0);
  const before = months.slice(0, month - 1).reduce((sum, days) => sum + days, 0);
  const start = (year * length + before + day - 1) * 86400 + clock;
  return (value) => model(Math.round(start + value * SECONDS[found[1]]), months, length);
}

function world(milliseconds) {
  const when = new Date(milliseconds);
  if (Number.isNaN(when.getTime())) return null;
  const [date, time] = when.toISOString().split("T");
  return written(date, time.slice(0, 5));
}

function model(seconds, months, length) {
  const days = Math.floor(seconds / 86400);
  const year = Math.floor(days / length);
  let rest = days - year * length;
  let month = 0;
  while (rest >= months[month]) rest -= months[month++];
  const minutes = Math.floor((seconds - days * 86400) / 60);
  const date = [String(year).padStart(4, "0"), pad(month + 1), pad(rest + 1)].join("-");
  return written(date, `${pad(Math.floor(minutes / 60))}:${pad(minutes % 60)}`);
}

const pad = (number) => String(number).padStart(2, "0");
const written = (date, time) => (time === "00:00" ? date : `${date} ${time}`);
