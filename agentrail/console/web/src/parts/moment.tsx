/** Times and durations. */
import { signal } from "@preact/signals";

const clock = signal(Date.now());
setInterval(() => (clock.value = Date.now()), 1000);

const whole = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const timeOfDay = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

/** The last millisecond that a date of a browser can have, in the year 275,760. */
const LAST_DATE = 8_640_000_000_000_000;

/** What stands for a time that no browser can write. */
const NO_DATE = "unknown time";

/** A time as it is stored, in milliseconds since 1970: whatever a journal of somebody else says, also none. */
type Stored = number | null | undefined;

/** Returns the date of *at*; null if it is none that a browser can write, for which it would throw an error. */
function dateOf(at: Stored): Date | null {
  return typeof at === "number" && Math.abs(at) <= LAST_DATE ? new Date(at) : null;
}

/** A time as every room writes it: the time of day, after the date if it is another day than today. */
export function moment(at: Stored): string {
  const date = dateOf(at);
  if (date === null) return NO_DATE;
  return date.toDateString() === new Date().toDateString() ? timeOfDay.format(date) : whole.format(date);
}

const tenths = new Intl.DateTimeFormat("en-GB", { minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 });
const minutes = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const days = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

/** A time of an axis whose ticks are *step* milliseconds from each other. */
export function tickTime(at: number, step: number): string {
  const format = step < 1_000 ? tenths : step < 60_000 ? timeOfDay : step < 10_800_000 ? minutes : days;
  const date = dateOf(at);
  return date === null ? NO_DATE : format.format(date);
}

/** A time; its title and its machine-readable form have the date. */
export function Moment({ at }: { at: Stored }) {
  return <Time at={at} text={moment(at)} />;
}

/** How long ago *at* was; it goes on by itself. */
export function Since({ at }: { at: number }) {
  return <Time at={at} text={duration(Math.max(0, clock.value - at))} />;
}

/** How long it is until *at*; it goes on by itself. */
export function Until({ at }: { at: number }) {
  const rest = at - clock.value;
  return <Time at={at} text={rest > 0 ? `in ${duration(rest)}` : "now"} />;
}

function Time({ at, text }: { at: Stored; text: string }) {
  const date = dateOf(at);
  if (date === null) return <span>{NO_DATE}</span>;
  return (
    <time dateTime={date.toISOString()} title={whole.format(date)}>
      {text}
    </time>
  );
}

const UNITS: readonly (readonly [number, string])[] = [
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "min"],
  [1_000, "s"],
];

/** Returns a duration in its two largest units: `3 min 20 s`. */
export function duration(ms: number): string {
  const first = UNITS.findIndex(([size]) => ms >= size);
  if (first < 0) return `${Math.round(ms)} ms`;
  const parts: string[] = [];
  let rest = ms;
  for (const [size, name] of UNITS.slice(first, first + 2)) {
    const amount = Math.floor(rest / size);
    rest -= amount * size;
    if (amount) parts.push(`${amount} ${name}`);
  }
  return parts.join(" ");
}
