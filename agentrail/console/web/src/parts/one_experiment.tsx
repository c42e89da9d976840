/** One experiment beside its baseline: what each scorer says, and how each case moved. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { View } from "../host/interface";
import { address, go, replaceQuery, type Place } from "../route";
import { useAnswer } from "../store/answer";
import { movedCases, type Moved, type MovedCase } from "../store/moved";
import { dollars } from "./amounts";
import { Icon } from "./icon";
import { Menu } from "./menu";
import { Moment } from "./moment";
import { Plain } from "./plain";
import { ProblemNote } from "./problem_note";
import { moveFocus } from "./row_keys";
import { DifferenceScale, Interval, MovedBar, Pill, signed, Verdict } from "./verdict";

type Evaluation = View<"EvaluationView">;

const ROOM = "evaluations";

const TONES: Readonly<Record<string, string>> = { better: "is-good", worse: "is-bad", rose: "is-good", fell: "is-bad" };

const MOVES: Readonly<Record<Moved, string>> = {
  fell: "Fell",
  rose: "Rose",
  same: "About the same",
  failed: "Failed",
  alone: "Not in both",
};

interface Props {
  readonly file: string;
  /** The file of the baseline that was chosen; null: the one with which it was run. */
  readonly against: string | null;
  readonly place: Place;
}

export function OneExperiment({ file, against, place }: Props) {
  const query = { file, ...(against !== null && { baseline: against }) };
  const answer = useAnswer("evaluation", null, query).value;
  const value = answer.value;
  return (
    <div class="room">
      <div class="room-head experiment-head">
        <a class="button bare square" href={address(null, ROOM)} aria-label="All experiments">
          <Icon name="left" />
        </a>
        <div class="grow">
          <h1 class="cut">
            <Plain text={file} isCut />
          </h1>
          {value && <About evaluation={value} />}
        </div>
        {value && (
          <div class="actions end">
            <Baselines one={value.experiment} baseline={value.baseline} />
            <CopyReport evaluation={value} />
          </div>
        )}
      </div>
      {answer.problem && <ProblemNote problem={answer.problem} />}
      {value ? (
        <div class="room" aria-busy={answer.isLate}>
          <Summary evaluation={value} />
          <Scorers evaluation={value} />
          <Notes notes={value.notes} />
          <Cases evaluation={value} place={place} />
        </div>
      ) : (
        answer.isLate && <p role="status">Loading …</p>
      )}
    </div>
  );
}

/** What it is compared with, and what it is of. */
function About({ evaluation: { experiment: one, baseline } }: { evaluation: Evaluation }) {
  return (
    <p class="hint">
      {baseline ? (
        <>
          against{" "}
          <a href={address(null, ROOM, baseline.file)}>
            <Plain text={baseline.file} />
          </a>
        </>
      ) : one.baseline ? (
        "its baseline is not in the folder"
      ) : (
        "not compared"
      )}
      {one.dataset && (
        <>
          {" · "}
          <Plain text={one.dataset} />
        </>
      )}{" "}
      · {many(one.cases, "case")} × {one.repeats} · {one.usd === null ? "no price" : dollars(one.usd)} · <Moment at={one.at_ms} />
    </p>
  );
}

function CopyReport({ evaluation }: { evaluation: Evaluation }) {
  const copied = useSignal(false);
  const copy = async () => {
    await navigator.clipboard.writeText(report(evaluation));
    copied.value = true;
  };
  return (
    <>
      <button type="button" onClick={() => void copy()}>
        Copy report
      </button>
      <span role="status">{copied.value && "Copied"}</span>
    </>
  );
}

/** The other experiments; a choice is an address, so that it can be sent to somebody. */
function Baselines({ one, baseline }: { one: View<"ExperimentView">; baseline: View<"ExperimentView"> | null }) {
  const answer = useAnswer("evaluations", null, {} as never).value;
  const others = (answer.value?.items ?? []).filter(({ file }) => file !== one.file);
  if (others.length === 0) return null;
  const items = others.map(({ file }) => ({
    label: file,
    isChosen: file === baseline?.file,
    act: () => go(`${address(null, ROOM, one.file)}?against=${encodeURIComponent(file)}`),
  }));
  return <Menu label="Other baseline" items={items} kind="" />;
}

/** What it comes to: the verdict, by which scorer, and how the cases moved by it. */
function Summary({ evaluation }: { evaluation: Evaluation }) {
  const { experiment, baseline, scorers } = evaluation;
  const verdict = overall(evaluation);
  const one = scorers.find((scorer) => scorer.verdict === verdict);
  if (!baseline) return null;
  if (!one) return <Verdict verdict={verdict} />;
  return (
    <section class="card summary" aria-label="Verdict">
      <div>
        <p class="line">
          <Verdict verdict={verdict} />{" "}
          <span class="soft small cut">
            by <Plain text={one.scorer} />, {one.cases} of {many(experiment.cases, "case")}
          </span>
        </p>
        <p class="big">
          {one.before.toFixed(2)} → {one.after.toFixed(2)}
        </p>
        <p class="hint">{movedWords(movedCases(evaluation.cases, one.scorer, repeatsOf(evaluation)))}</p>
      </div>
      <DifferenceScale value={one.after - one.before} low={one.low} high={one.high} tone={TONES[verdict] ?? ""} />
    </section>
  );
}

/** How many cases moved, and how many are left out. */
function movedWords(cases: readonly MovedCase[]): string {
  const number = (kind: Moved) => cases.filter(({ moved }) => moved === kind).length;
  const parts = [`${many(number("fell"), "case")} fell, ${number("rose")} rose, ${number("same")} about the same.`];
  if (number("failed")) parts.push(`In ${number("failed")} a run failed.`);
  if (number("alone")) parts.push(`${number("alone")} ${number("alone") === 1 ? "is" : "are"} not in both.`);
  return parts.join(" ");
}

/** How often each case was run, in the one that ran them less often. */
function repeatsOf({ experiment, baseline }: Evaluation): number {
  return Math.min(experiment.repeats, baseline?.repeats ?? experiment.repeats);
}

function many(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}

/** A card for each scorer: its difference around zero, or its mean if there is nothing to compare. */
function Scorers({ evaluation: { scorers, experiment } }: { evaluation: Evaluation }) {
  const most = Math.max(0.1, ...scorers.flatMap(({ low, high }) => [Math.abs(low), Math.abs(high)]));
  return (
    <div class="scorers">
      {scorers.map((one) => (
        <section class="scorer" aria-label={one.scorer}>
          <div class="scorer-head">
            <h2 class="cut">
              <Plain text={one.scorer} isCut />
            </h2>
            <Verdict verdict={one.verdict} />
          </div>
          <Interval value={one.after - one.before} low={one.low} high={one.high} most={most} tone={TONES[one.verdict] ?? ""} />
          <p class="hint">{differenceText(one)}</p>
        </section>
      ))}
      {scorers.length === 0 &&
        experiment.scorers.map(({ scorer, mean }) => (
          <section class="scorer" aria-label={scorer}>
            <h2 class="cut">
              <Plain text={scorer} isCut />
            </h2>
            <p class="scorer-means">{mean === null ? "no score" : mean.toFixed(2)}</p>
          </section>
        ))}
    </div>
  );
}

function Notes({ notes }: { notes: readonly string[] }) {
  if (notes.length === 0) return null;
  return (
    <ul class="hint notes">
      {notes.map((note) => (
        <li>
          <Plain text={note} />
        </li>
      ))}
    </ul>
  );
}

function differenceText({ after, before, low, high, unseen, verdict, cases }: View<"ScorerComparisonView">): string {
  const difference = signed(after - before);
  if (verdict === "too few cases") return `${difference} in ${cases} cases: chance alone could do that`;
  if (verdict === "no difference seen") return `${difference}; less than ${unseen.toFixed(2)} would be missed`;
  return `${difference}, between ${signed(low)} and ${signed(high)}`;
}

function Cases({ evaluation, place }: { evaluation: Evaluation; place: Place }) {
  const { experiment, baseline, scorers } = evaluation;
  const usual = scorers.find(({ verdict }) => verdict === overall(evaluation))?.scorer ?? experiment.scorers[0]?.scorer ?? "";
  const names = experiment.scorers.map(({ scorer }) => scorer);
  const asked = place.query.get("scorer") ?? "";
  const scorer = useSignal(names.includes(asked) ? asked : names.includes(usual) ? usual : (names[0] ?? ""));
  const only = useSignal<Moved | "">("");
  const against = place.query.get("against") ?? "";
  useEffect(() => replaceQuery({ against, scorer: scorer.value }), [scorer.value, against]);
  useEffect(() => moveFocus(".cases tbody a"), []);
  const all = movedCases(evaluation.cases, scorer.value, repeatsOf(evaluation));
  const shown = all.filter(({ moved }) => !only.value || moved === only.value);
  const kinds = (Object.keys(MOVES) as Moved[]).filter((kind) => all.some(({ moved }) => moved === kind));
  const most = Math.max(0.1, ...all.map(({ difference }) => Math.abs(difference ?? 0)));
  return (
    <>
      <div class="room-head">
        {names.length > 1 && (
          <div class="choice" role="group" aria-label="Scorer">
            {names.map((name) => (
              <button type="button" aria-pressed={scorer.value === name} onClick={() => (scorer.value = name)}>
                <Plain text={name} />
              </button>
            ))}
          </div>
        )}
        {baseline && (
          <div class="choice" role="group" aria-label="Which cases">
            {["" as const, ...kinds].map((kind) => (
              <button type="button" aria-pressed={only.value === kind} onClick={() => (only.value = kind)}>
                {kind ? MOVES[kind] : "All"} <b>{kind ? all.filter(({ moved }) => moved === kind).length : all.length}</b>
              </button>
            ))}
          </div>
        )}
        <span class="keys-here extra">
          <kbd>J</kbd> <kbd>K</kbd> move · <kbd>Enter</kbd> {baseline ? "the runs of both beside each other" : "its runs"}
        </span>
      </div>
      <table class="cases">
        <thead>
          <tr>
            <th scope="col">Case</th>
            {baseline && <th scope="col" class="amount extra">Before</th>}
            <th scope="col" class="amount">{baseline ? "After" : "Mean"}</th>
            {baseline && <th scope="col" class="extra">Difference</th>}
            {baseline && <th scope="col">Moved</th>}
            <th scope="col" class="amount extra">Open</th>
          </tr>
        </thead>
        <tbody>
          {shown.map((one) => (
            <CaseRow key={one.row.case} one={one} file={experiment.file} against={baseline?.file ?? ""} most={most} />
          ))}
        </tbody>
      </table>
      {baseline && <p class="hint">A case fell or rose if its mean moved by more than one of its runs makes: that alone proves nothing.</p>}
    </>
  );
}

function CaseRow({ one, file, against, most }: { one: MovedCase; file: string; against: string; most: number }) {
  const { row, before, after, difference, moved } = one;
  const to = `${address(null, ROOM, file, row.case)}${against && `?against=${encodeURIComponent(against)}`}`;
  return (
    <tr>
      <td>
        <a href={to}>
          <Plain text={row.case} />
        </a>
        {row.problem && (
          <p class="hint">
            <Plain text={row.problem} />
          </p>
        )}
      </td>
      {against && <td class="amount soft extra">{before === null ? "–" : before.toFixed(2)}</td>}
      <td class="amount">{after === null ? "–" : after.toFixed(2)}</td>
      {against && (
        <td class="extra">{difference !== null && <MovedBar value={difference} most={most} tone={TONES[moved] ?? ""} />}</td>
      )}
      {against && (
        <td>
          {moved === "failed" ? (
            <Pill sign={<Icon name="trouble" />} text={`${row.failed} of ${row.runs} failed`} tone="is-bad" />
          ) : moved === "alone" ? (
            <span class="soft small">{MOVES.alone}</span>
          ) : (
            <Verdict verdict={moved} />
          )}
        </td>
      )}
      <td class="amount extra to-runs">{many(row.runs, "session")}</td>
    </tr>
  );
}

/** What it comes to by all scorers: worse if one is, else better if one is. */
function overall({ scorers }: Evaluation): string {
  const order = ["worse", "better", "no difference seen", "too few cases"];
  return order.find((verdict) => scorers.some((one) => one.verdict === verdict)) ?? "not comparable";
}

/** The comparison as text, for a message to somebody. */
function report({ experiment, baseline, scorers, notes }: Evaluation): string {
  const title = baseline ? `${experiment.file} against ${baseline.file}` : experiment.file;
  return [title, ...scorers.map(({ scorer, sentence }) => `${scorer}: ${sentence}`), ...notes, ""].join("\n");
}
