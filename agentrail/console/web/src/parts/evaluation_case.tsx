/** The runs of one case, those of the baseline beside those of the experiment; each leads to its session. */
import type { View } from "../host/interface";
import { address } from "../route";
import { useAnswer } from "../store/answer";
import { dollars } from "./amounts";
import { Icon } from "./icon";
import { duration } from "./moment";
import { Plain, withHiddenShown } from "./plain";
import { ProblemNote } from "./problem_note";

type Run = View<"EvaluationRunView">;

const ROOM = "evaluations";

interface Props {
  readonly file: string;
  readonly against: string | null;
  readonly name: string;
}

export function EvaluationCase({ file, against, name }: Props) {
  const query = { file, case: name, ...(against !== null && { baseline: against }) };
  const answer = useAnswer("evaluation", null, query).value;
  const back = `${address(null, ROOM, file)}${against === null ? "" : `?against=${encodeURIComponent(against)}`}`;
  return (
    <div class="room">
      <div class="room-head experiment-head">
        <a class="button bare square" href={back} aria-label="The experiment">
          <Icon name="left" />
        </a>
        <div class="grow">
          <h1 class="cut">
            <Plain text={name} isCut />
          </h1>
          <p class="hint cut">
            in <Plain text={file} />
          </p>
        </div>
      </div>
      {answer.problem && <ProblemNote problem={answer.problem} />}
      {answer.value ? (
        <div class="both" aria-busy={answer.isLate}>
          {answer.value.baseline && (
            <Runs title={answer.value.baseline.file} runs={answer.value.runs.filter((run) => run.is_baseline)} />
          )}
          <Runs title={file} runs={answer.value.runs.filter((run) => !run.is_baseline)} />
        </div>
      ) : (
        answer.isLate && <p role="status">Loading …</p>
      )}
    </div>
  );
}

function Runs({ title, runs }: { title: string; runs: readonly Run[] }) {
  return (
    <section aria-label={title}>
      <h2>
        <Plain text={title} />
      </h2>
      {runs.length === 0 && <p class="hint">The case was not run there.</p>}
      <ol class="runs">
        {runs.map((run) => (
          <li key={run.repeat}>
            <p class="room-head">
              <a href={address(run.session)}>Run {run.repeat}</a>
              <span class="soft small">
                {duration(run.seconds * 1000)} · {run.usd === null ? "no price" : dollars(run.usd)}
              </span>
            </p>
            {run.error ? (
              <p class="is-bad">
                <Plain text={run.error} />
              </p>
            ) : (
              <p class="run-reply" dir="auto">
                {withHiddenShown(run.reply)}
              </p>
            )}
            <dl class="facts">
              {run.scores.map(({ scorer, value, why }) => (
                <>
                  <dt>
                    <Plain text={scorer} />
                  </dt>
                  <dd>
                    {value === null ? <span class="is-bad">no score</span> : value.toFixed(2)}
                    {why && (
                      <span class="soft small">
                        {" "}
                        <Plain text={why} />
                      </span>
                    )}
                  </dd>
                </>
              ))}
            </dl>
          </li>
        ))}
      </ol>
    </section>
  );
}
