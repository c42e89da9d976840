/** What a comparison came to: a word with its sign and colour, and a difference with its limits around zero. */
import type { ComponentChildren } from "preact";

const VERDICTS: Readonly<Record<string, readonly [sign: string, text: string, tone: string]>> = {
  better: ["↑", "Better", "is-good"],
  worse: ["↓", "Worse", "is-bad"],
  "no difference seen": ["=", "Can’t tell", ""],
  "too few cases": ["=", "Too few cases", ""],
  fell: ["↓", "Fell", "is-bad"],
  rose: ["↑", "Rose", "is-good"],
  same: ["=", "About the same", ""],
};

/** A pill for *verdict*: that of a scorer, or how a single case moved. */
export function Verdict({ verdict }: { verdict: string }) {
  const [sign, text, tone] = VERDICTS[verdict] ?? ["", verdict, ""];
  return <Pill sign={sign} text={text} tone={tone} />;
}

export function Pill({ sign, text, tone }: { sign: ComponentChildren; text: string; tone: string }) {
  return (
    <span class={`pill ${tone}`}>
      {sign && <span aria-hidden="true">{sign}</span>}
      {text}
    </span>
  );
}

/** Writes a difference with its sign: `−0.05`. */
export function signed(difference: number): string {
  const text = Math.abs(difference).toFixed(2);
  return Number(text) === 0 ? "0.00" : `${difference < 0 ? "−" : "+"}${text}`;
}

const WIDTH = 240;

interface IntervalProps {
  readonly value: number;
  readonly low: number;
  readonly high: number;
  /** The difference at the end of the picture, on both sides of zero. */
  readonly most: number;
  readonly tone: string;
}

/** A difference and its limits; a dotted line stands where nothing differs. */
export function Interval({ value, low, high, most, tone }: IntervalProps) {
  const at = (difference: number) => WIDTH / 2 + (Math.max(-most, Math.min(most, difference)) / most) * (WIDTH / 2 - 6);
  const text = `${signed(value)}, between ${signed(low)} and ${signed(high)}`;
  return (
    <svg class={`interval ${tone}`} viewBox={`0 0 ${WIDTH} 16`} role="img" aria-label={text}>
      <line class="interval-zero" x1={at(0)} x2={at(0)} y1={0} y2={16} />
      <line class="interval-range" x1={at(low)} x2={at(high)} y1={8} y2={8} />
      <circle cx={at(value)} cy={8} r={3.5} />
    </svg>
  );
}

const SCALE = 440;

/** Returns the difference at which a scale ends that is to show *most*: 1, 2 or 5 of a power of ten. */
function endOfScale(most: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(most, 0.01)));
  return power * ([1, 2, 5].find((step) => step * power >= most) ?? 10);
}

/** A difference and its limits above a scale, whose middle says that nothing differs. */
export function DifferenceScale({ value, low, high, tone }: Omit<IntervalProps, "most">) {
  const end = endOfScale(Math.max(Math.abs(low), Math.abs(high), Math.abs(value)));
  const at = (difference: number) => SCALE / 2 + (difference / end) * (SCALE / 2 - 20);
  return (
    <svg class={`scale ${tone}`} viewBox={`0 0 ${SCALE} 72`} role="img" aria-label={`${signed(value)}, between ${signed(low)} and ${signed(high)}`}>
      <line class="interval-zero" x1={at(0)} x2={at(0)} y1={0} y2={52} />
      <line class="scale-line" x1={at(-end)} x2={at(end)} y1={52} y2={52} />
      {[-1, -0.5, 0, 0.5, 1].map((part) => (
        <text class="scale-words" x={at(part * end)} y={68}>
          {part ? `${part < 0 ? "−" : "+"}${Number((Math.abs(part) * end).toPrecision(2))}` : "no difference"}
        </text>
      ))}
      <text class="scale-words" x={at(value)} y={16}>
        {signed(value)}
      </text>
      <line class="interval-range scale-range" x1={at(low)} x2={at(high)} y1={30} y2={30} />
      <circle cx={at(value)} cy={30} r={6} />
    </svg>
  );
}

/** The width of the picture of a mean, in its own units. */
const RANGE = 160;

interface MeanRangeProps {
  readonly mean: number;
  readonly low: number | null;
  readonly high: number | null;
  /** Mean of the baseline, at which a dotted line stands; null: there is none. */
  readonly baseline: number | null;
  /** What the means beside it lie between. */
  readonly from: number;
  readonly to: number;
}

/** A mean and its 95 % range, beside the mean of the baseline. */
export function MeanRange({ mean, low, high, baseline, from, to }: MeanRangeProps) {
  const at = (value: number) => 6 + ((Math.max(from, Math.min(to, value)) - from) / (to - from || 1)) * (RANGE - 12);
  return (
    <svg class="interval mean-range" viewBox={`0 0 ${RANGE} 16`} aria-hidden="true">
      {baseline !== null && <line class="interval-zero" x1={at(baseline)} x2={at(baseline)} y1={0} y2={16} />}
      {low !== null && high !== null && <line class="interval-range" x1={at(low)} x2={at(high)} y1={8} y2={8} />}
      <circle cx={at(mean)} cy={8} r={3.5} />
    </svg>
  );
}

/** A bar from zero to *value*, which the number beside it says in words. */
export function MovedBar({ value, most, tone }: { value: number; most: number; tone: string }) {
  const length = Math.max(1.5, (Math.min(Math.abs(value), most) / most) * 76);
  return (
    <svg class={`interval ${tone}`} viewBox="0 0 160 16" aria-hidden="true">
      <line class="interval-zero" x1={80} x2={80} y1={0} y2={16} />
      <rect x={value < 0 ? 80 - length : 80} y={4} width={length} height={8} rx={2} />
    </svg>
  );
}
