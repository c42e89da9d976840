/** What a record changed in the state of its session, and the whole state after it. */
import { useSignal } from "@preact/signals";
import { write } from "../host/exact_json";
import type { View } from "../host/interface";
import { useAnswer } from "../store/answer";
import { JsonText } from "./json_text";
import { Plain } from "./plain";
import { ProblemNote } from "./problem_note";

export function StateChanges({ session, number }: { session: string; number: number }) {
  const { value: moment, problem, isLate } = useAnswer("state_at", session, { record: number }).value;
  const isOpen = useSignal(false);
  if (problem) return <ProblemNote problem={problem} />;
  if (!moment) return <p class="hint">Loading the state …</p>;
  return (
    <section class="changes" aria-label="The state" aria-busy={isLate}>
      <h3>What changed</h3>
      {moment.changes.length === 0 && <p>Nothing.</p>}
      <dl>
        {moment.changes.map((change) => (
          <Change change={change} />
        ))}
      </dl>
      <details open={isOpen.value} onToggle={({ currentTarget }) => (isOpen.value = currentTarget.open)}>
        <summary>The state after record {moment.record}</summary>
        {isOpen.value && <JsonText value={{ json: write(moment.state) }} what="state" />}
      </details>
    </section>
  );
}

export function Change({ change }: { change: View<"FieldChangeView"> }) {
  return (
    <>
      <dt>
        <Plain text={change.field} />
      </dt>
      <dd class="change">
        <del aria-label={`${change.field} before`}>
          <JsonText value={{ json: write(change.before) }} what="value before" />
        </del>
        <ins aria-label={`${change.field} after`}>
          <JsonText value={{ json: write(change.after) }} what="value after" />
        </ins>
      </dd>
    </>
  );
}
