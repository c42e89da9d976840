/** What a comparison came to: a word with its sign and colour, and a difference with its limits around zero. */

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

export function Pill({ sign, text, tone }: { sign: string; text: string; tone: string }) {
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
