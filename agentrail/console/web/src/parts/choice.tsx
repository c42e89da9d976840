/** One of a few values, all in sight, each with how many it fits. */
interface ChoiceProps<Value extends string> {
  readonly label: string;
  readonly value: Value;
  /** The values, their words, and how many there are of each; null: that is not known. */
  readonly options: readonly (readonly [value: Value, words: string, count?: number | null])[];
  readonly choose: (value: Value) => void;
}

export function Choice<Value extends string>({ label, value, options, choose }: ChoiceProps<Value>) {
  return (
    <div class="choice" role="group" aria-label={label}>
      {options.map(([name, words, count]) => (
        <button type="button" aria-pressed={name === value} onClick={() => choose(name)}>
          {words}
          {count != null && <b>{count}</b>}
        </button>
      ))}
    </div>
  );
}
