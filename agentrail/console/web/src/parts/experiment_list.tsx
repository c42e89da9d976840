/** All experiments, the newest first. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { View } from "../host/interface";
import { address, replaceQuery, type Place } from "../route";
import { useAnswer } from "../store/answer";
import { dollars } from "./amounts";
import { Empty } from "./empty";
import { Icon } from "./icon";
import { Moment } from "./moment";
import { Plain } from "./plain";
import { ProblemNote } from "./problem_note";
import { moveFocus } from "./row_keys";
import { MeanRange, Pill, Verdict } from "./verdict";

type Experiment = View<"ExperimentView">;

const ROOM = "evaluations";

export function ExperimentList({ place }: { place: Place }) {
  const answer = useAnswer("evaluations", null, {} as never).value;
  const [text, dataset] = [useSignal(place.query.get("search") ?? ""), useSignal(place.query.get("set") ?? "")];
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => replaceQuery({ search: text.value, set: dataset.value }), [text.value, dataset.value]);
  useEffect(() => moveFocus(".experiments tbody a", field), []);
  const all = answer.value?.items ?? [];
  const wanted = text.value.toLowerCase();
  const fits = ({ file, name, dataset: set }: Experiment) =>
    [file, name, set].some((word) => word.toLowerCase().includes(wanted)) && (!dataset.value || set === dataset.value);
  const shown = all.filter(fits);
  return (
    <div class="room">
      <div class="room-head">
        <h1>Evaluations</h1>
        <label class="field end">
          <Icon name="search" />
          <input
            ref={field}
            type="search"
            dir="auto"
            aria-label="Experiment or data set"
            placeholder="Experiment or data set"
            value={text.value}
            onInput={(event) => (text.value = event.currentTarget.value)}
          />
          <kbd aria-hidden="true">/</kbd>
        </label>
      </div>
      {answer.problem && <ProblemNote problem={answer.problem} />}
      {answer.value ? (
        <>
          <Datasets all={all} chosen={dataset.value} choose={(set) => (dataset.value = set)} />
          {shown.length > 0 && <Experiments shown={shown} all={all} />}
          {shown.length === 0 && <Nothing answer={answer.value} />}
        </>
      ) : (
        answer.isLate && <p role="status">Loading …</p>
      )}
    </div>
  );
}

/** Says what would be here, and the next step. */
function Nothing({ answer }: { answer: View<"EvaluationsView"> }) {
  if (answer.items.length > 0) return <p>No experiment fits.</p>;
  return answer.has_folder ? (
    <Empty icon="flask" title="No experiment has been run yet" next={<Code>agentrail evals run cases.jsonl --agent app.py --to FOLDER/NAME.json</Code>}>
      Each experiment has a row here, and its verdict against its baseline.
    </Empty>
  ) : (
    <Empty icon="flask" title="No folder of results was named" next={<Code>agentrail console FILE --evals FOLDER</Code>}>
      The results of experiments would be here.
    </Empty>
  );
}

function Code({ children }: { children: string }) {
  return (
    <pre>
      <code>{children}</code>
    </pre>
  );
}

interface DatasetsProps {
  readonly all: readonly Experiment[];
  readonly chosen: string;
  readonly choose: (set: string) => void;
}

function Datasets({ all, chosen, choose }: DatasetsProps) {
  const counts = new Map<string, number>();
  for (const { dataset } of all) if (dataset) counts.set(dataset, (counts.get(dataset) ?? 0) + 1);
  if (counts.size < 2) return null;
  return (
    <div class="choice" role="group" aria-label="Data set">
      {[["", all.length] as const, ...counts].map(([set, number]) => (
        <button type="button" aria-pressed={chosen === set} onClick={() => choose(set)}>
          <Plain text={set || "All"} /> <b>{number}</b>
        </button>
      ))}
    </div>
  );
}

function Experiments({ shown, all }: { shown: readonly Experiment[]; all: readonly Experiment[] }) {
  const baselines = new Set(all.map(({ baseline }) => baseline));
  return (
    <>
      <table class="experiments">
        <thead>
          <tr>
            <th scope="col">Experiment</th>
            <th scope="col" class="extra">Data set</th>
            <th scope="col" class="amount extra">Cases</th>
            <th scope="col">Against its baseline</th>
            <th scope="col" class="extra" colSpan={2}>
              Score and its 95 % range
            </th>
            <th scope="col" class="amount extra">Cost</th>
            <th scope="col" class="amount extra">Ran</th>
          </tr>
        </thead>
        <tbody>
          {shown.map((one) => (
            <tr key={one.file}>
              <td>
                <a href={address(null, ROOM, one.file)}>
                  <Plain text={one.file} />
                </a>
              </td>
              <td class="soft extra">
                <Plain text={one.dataset} />
              </td>
              <td class="amount soft extra">
                {one.cases} × {one.repeats}
              </td>
              <td>
                <State one={one} isBaseline={baselines.has(one.name)} />
              </td>
              <Score one={one} baseline={all.find(({ name }) => name === one.baseline)} all={all} />
              <td class="amount soft extra">{one.usd === null ? "no price" : dollars(one.usd)}</td>
              <td class="amount soft extra">
                <Moment at={one.at_ms} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="hint">
        A dotted line is the mean of the baseline. To keep a turn of a session as a case: <code>agentrail evals add SESSION TURN --to cases.jsonl</code>
      </p>
    </>
  );
}

function State({ one, isBaseline }: { one: Experiment; isBaseline: boolean }) {
  if (one.missing > 0) return <Pill sign="" text={`${one.runs} of ${one.runs + one.missing} runs`} tone="" />;
  if (one.verdict) return <Verdict verdict={one.verdict} />;
  return isBaseline ? <Pill sign="" text="Baseline" tone="is-work" /> : <span class="soft small">not compared</span>;
}

/** The mean of the first scorer and its range, and which one it is if there are several; while it runs, how far it is. */
function Score({ one, baseline, all }: { one: Experiment; baseline: Experiment | undefined; all: readonly Experiment[] }) {
  const first = one.scorers.find(({ mean }) => mean !== null);
  const whole = one.runs + one.missing;
  if (one.missing > 0 || first?.mean == null) {
    return (
      <>
        <td class="extra">
          {one.missing > 0 && <progress class="ran" max={whole} value={one.runs} aria-label={`${one.runs} of ${whole} runs`} />}
        </td>
        <td class="amount extra">–</td>
      </>
    );
  }
  const { scorer, mean, low, high } = first;
  const own = all.flatMap(({ scorers }) => scorers.filter((other) => other.scorer === scorer));
  const limits = own.flatMap((other) => [other.low, other.high, other.mean]).filter((limit) => limit !== null);
  const former = baseline?.scorers.find((other) => other.scorer === scorer)?.mean ?? null;
  return (
    <>
      <td class="extra">
        <MeanRange mean={mean} low={low} high={high} baseline={former} from={Math.min(0, ...limits)} to={Math.max(1, ...limits)} />
      </td>
      <td class="amount extra" title={one.scorers.map((other) => `${other.scorer} ${other.mean?.toFixed(2) ?? "–"}`).join(" · ")}>
        {mean.toFixed(2)}
        {low !== null && high !== null && (
          <span class="only-read">
            , between {low.toFixed(2)} and {high.toFixed(2)}
          </span>
        )}
        {one.scorers.length > 1 && (
          <span class="scorer-name cut soft tiny">
            <Plain text={scorer} isCut />
          </span>
        )}
      </td>
    </>
  );
}
