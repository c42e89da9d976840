/** Why a call, a turn or an end came about: each plugin that was asked, what it answered, and the rule that decided. */
import { useSignal } from "@preact/signals";
import type { View } from "../host/interface";
import { Moment } from "../parts/moment";
import { Plain } from "../parts/plain";
import { ProblemNote } from "../parts/problem_note";
import type { SessionRoomProps } from "../rooms";
import { address, go } from "../route";
import { WAITS } from "../store/activity";
import { useAnswer } from "../store/answer";
import { useCalls, type Calls } from "../store/calls";

const END = "end";

export default function Why({ session, place }: SessionRoomProps) {
  const calls = useCalls(session);
  // Without a question in the address: what waits for a person, or else what happened last
  const about = place.rest[0] ?? (calls ? (calls.waiting ?? END) : null);
  if (about === null) return <p role="status">Loading …</p>;
  return (
    <div class="why">
      <Subjects session={session} about={about} calls={calls} />
      <div class="why-account">
        <Account session={session} about={about} />
      </div>
    </div>
  );
}

/** The most calls of the list. */
const MOST = 30;

/** What one can ask about: what waits, the last end, and the last calls. */
function Subjects({ session, about, calls }: { session: string; about: string; calls: Calls | null }) {
  const spans = calls?.spans.slice(0, MOST) ?? [];
  return (
    <nav class="why-subjects" aria-label="What one can ask about">
      <a href={address(session, "why", END)} aria-current={about === END ? "page" : undefined}>
        How it ended last
      </a>
      {spans.map(({ id, label, outcome, start_ms: at }) => (
        <a href={address(session, "why", id)} aria-current={about === id ? "page" : undefined}>
          <Plain text={label || id} />{" "}
          <span class={id === calls?.waiting ? "waits" : "hint"}>
            {id === calls?.waiting ? WAITS : outcome || "under way"}, <Moment at={at} />
          </span>
        </a>
      ))}
      {calls && calls.spans.length > MOST && <p class="hint">The timeline has the calls before.</p>}
      {calls && spans.length === 0 && <p class="hint">It has called nothing of late.</p>}
    </nav>
  );
}

function Account({ session, about }: { session: string; about: string }) {
  const { value: account, problem, isLate } = useAnswer("why", session, { about }).value;
  return (
    <>
      <Question key={about} session={session} about={about} />
      {problem && <ProblemNote problem={problem} />}
      {account ? (
        <section aria-label="The account" aria-busy={isLate}>
          <p class="outcome" role="status">
            <Plain text={account.sentence} />
          </p>
          <ol class="account">
            {account.entries.map((entry) => (
              <Entry session={session} entry={entry} rules={account.rules} />
            ))}
          </ol>
          {account.more && <p>There is more, which is not shown.</p>}
        </section>
      ) : (
        isLate && <p role="status">Loading …</p>
      )}
    </>
  );
}

function Question({ session, about }: { session: string; about: string }) {
  const asked = useSignal(about);
  const ask = (event: Event) => {
    event.preventDefault();
    go(address(session, "why", asked.value.trim() || END));
  };
  const turn = /^\d+$/.test(about) ? Number(about) : null;
  return (
    <form class="filter" onSubmit={ask}>
      <label>
        What about{" "}
        <input
          value={asked.value}
          spellcheck={false}
          aria-describedby="about-why"
          onInput={(event) => (asked.value = event.currentTarget.value)}
        />
      </label>
      <button class="main-action">Ask</button>
      {turn !== null && turn > 1 && <a href={address(session, "why", turn - 1)}>Turn {turn - 1}</a>}
      {turn !== null && <a href={address(session, "why", turn + 1)}>Turn {turn + 1}</a>}
      {about !== END && <a href={address(session, "why", END)}>The last end</a>}
      <span id="about-why" class="hint">
        The id of a call, the number of a turn, or <code>end</code>: how the last turn, or the session, came to its end.
      </span>
    </form>
  );
}

type Rules = View<"AccountView">["rules"];

function Entry({ session, entry, rules }: { session: string; entry: View<"AccountEntryView">; rules: Rules }) {
  const { record, at_ms: at, sentence, hook, rule, plugins } = entry;
  return (
    <li class={hook === null ? "fact" : "decision"}>
      <div class="entry">
        <p>
          <Moment at={at} /> <a href={address(session, "record", record)}>record {record}</a> <Plain text={sentence} />
        </p>
        {rule && <Rule name={rule} rules={rules} />}
      </div>
      {plugins.length > 0 && (
        <ol>
          {plugins.map(({ sentence: said, rule: theirs, decided }) => (
            <li class={decided ? "decided" : ""} aria-label={decided ? "This one decided" : undefined}>
              <Plain text={said} />
              {theirs && <Rule name={theirs} rules={rules} />}
            </li>
          ))}
        </ol>
      )}
    </li>
  );
}

/** The name of a rule; it unfolds to the sentence that the docs have about it. */
function Rule({ name, rules }: { name: string; rules: Rules }) {
  return (
    <details class="rule">
      <summary>rule: {name.replaceAll("_", " ")}</summary>
      {rules[name]}
    </details>
  );
}
