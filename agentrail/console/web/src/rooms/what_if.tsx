/** Other plugins tried on what happened: sessions and a candidate are chosen, and where they part is told with both reasons. */
import "../style/insight.css";
import { useSignal, type ReadonlySignal, type Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { HostSocket } from "../host/socket";
import { GivenUp, Refused } from "../host/socket";
import { useHost } from "../host/host_context";
import type { View } from "../host/interface";
import { ActionButton } from "../parts/action";
import { Empty } from "../parts/empty";
import { Icon } from "../parts/icon";
import { Menu } from "../parts/menu";
import { Moment } from "../parts/moment";
import { Plain } from "../parts/plain";
import { ProblemNote } from "../parts/problem_note";
import { Ticked } from "../parts/ticked";
import type { RoomProps } from "../rooms";
import { address, replaceQuery } from "../route";
import { useAnswer } from "../store/answer";
import { capitalised } from "../store/capitalised";

type Parting = View<"PartingView">;

/** What came of a try on one session. */
interface Outcome {
  readonly session: string;
  /** Null: it could not be tried. */
  readonly view: View<"WhatIfView"> | null;
  readonly problem: string;
}

/** The most sessions that are offered, the last active ones. */
const OFFERED = 50;

const OPTIONS_HINT = '{"BudgetGuard": {"max_rounds": 5}}';

export default function WhatIf({ place }: RoomProps) {
  const host = useHost();
  const candidates = useAnswer("candidates", null, {} as never).value;
  const stored = useAnswer("list_sessions", null, { owner: "*", limit: OFFERED }).value;
  const named = place.query.get("session");
  const candidate = useSignal(place.query.get("candidate") ?? "");
  const options = useSignal(place.query.get("options") ?? "");
  const chosen = useSignal<ReadonlySet<string>>(new Set(named ? [named] : []));
  const isBeyond = useSignal(false);
  const outcomes = useSignal<readonly Outcome[] | null>(null);
  const ending = useRef(new AbortController());
  useEffect(() => () => ending.current.abort(), []);
  useEffect(
    () => replaceQuery({ session: named ?? "", candidate: candidate.value, options: options.value }),
    [candidate.value, options.value],
  );
  const sessions = stored.value?.items ?? [];
  const ids = [...new Set([...(named ? [named] : []), ...sessions.map(({ session }) => session)])];
  const titleOf = (id: string) => sessions.find(({ session }) => session === id)?.title || id;
  const query = { ...(candidate.value && { candidate: candidate.value }), ...(options.value.trim() && { options: options.value }) };
  const tryAll = async () => {
    outcomes.value = [];
    for (const session of ids.filter((id) => chosen.value.has(id))) {
      const outcome = await tried(host, session, { ...query, ...(isBeyond.value && { beyond: true }) }, ending.current.signal);
      if (outcome === null) return;
      outcomes.value = [...outcomes.value, outcome];
    }
  };
  return (
    <div class="room">
      <div class="room-head">
        <h1>What if</h1>
        <span class="soft small">Other plugins are asked about what happened. No tool runs, no model is asked.</span>
      </div>
      {candidates.problem && <ProblemNote problem={candidates.problem} />}
      {candidates.value && (
        <div class="two">
          <div class="stay">
            <Candidate names={candidates.value.items} candidate={candidate} options={options} isBeyond={isBeyond} />
            <Sessions ids={ids} titleOf={titleOf} sessions={sessions} chosen={chosen} />
            <ActionButton kind="main" disabled={chosen.value.size === 0 || Object.keys(query).length === 0} act={tryAll}>
              Try it on {chosen.value.size === 1 ? "1 session" : `${chosen.value.size} sessions`}
            </ActionButton>
          </div>
          <Outcomes outcomes={outcomes} titleOf={titleOf} />
        </div>
      )}
    </div>
  );
}

/** Tries the candidate of *query* on a session; returns null if nobody waits for it any more. */
async function tried(host: HostSocket, session: string, query: object, signal: AbortSignal): Promise<Outcome | null> {
  try {
    return { session, view: await host.call("what_if", { session, query, signal }), problem: "" };
  } catch (error) {
    if (error instanceof GivenUp) return null;
    if (!(error instanceof Refused)) throw error;
    return { session, view: null, problem: error.problem.detail };
  }
}

interface CandidateProps {
  /** Names of the plugins that the operator of the host has to be tried. */
  readonly names: readonly string[];
  readonly candidate: Signal<string>;
  readonly options: Signal<string>;
  /** Whether it goes on behind the first difference, and guesses. */
  readonly isBeyond: Signal<boolean>;
}

const OWN = "The plugins that each session had";

function Candidate({ names, candidate, options, isBeyond }: CandidateProps) {
  return (
    <section class="card stack what-if-form" aria-label="What is tried">
      <h2>What is tried</h2>
      <Menu
        label={candidate.value || OWN}
        kind="slim"
        items={["", ...names].map((name) => ({ label: name || OWN, isChosen: name === candidate.value, act: () => (candidate.value = name) }))}
      />
      <label class="small">
        With other options, as JSON by plugin
        <textarea
          class="code"
          rows={3}
          spellcheck={false}
          placeholder={OPTIONS_HINT}
          value={options.value}
          onInput={(event) => (options.value = event.currentTarget.value)}
        />
      </label>
      <label class="line small">
        <input type="checkbox" checked={isBeyond.value} onChange={({ currentTarget }) => (isBeyond.value = currentTarget.checked)} />
        <span>Go on behind the first difference, and guess</span>
      </label>
      {names.length === 0 && (
        <p class="hint">
          The host has no plugins to be tried: <code>Host(candidates=…)</code> names some.
        </p>
      )}
    </section>
  );
}

interface SessionsProps {
  readonly ids: readonly string[];
  readonly titleOf: (id: string) => string;
  readonly sessions: readonly View<"SessionView">[];
  readonly chosen: Signal<ReadonlySet<string>>;
}

function Sessions({ ids, titleOf, sessions, chosen }: SessionsProps) {
  const toggle = (id: string) => {
    const next = new Set(chosen.value);
    if (!next.delete(id)) next.add(id);
    chosen.value = next;
  };
  const isAll = ids.every((id) => chosen.value.has(id));
  return (
    <section class="card" aria-label="On which sessions">
      <header>
        <h2>On which sessions</h2>
        <button type="button" class="bare slim end" onClick={() => (chosen.value = new Set(isAll ? [] : ids))}>
          {isAll ? "None" : "All"}
        </button>
      </header>
      <ul class="rows">
        {ids.map((id) => (
          <li key={id}>
            <label class="line grow">
              <input type="checkbox" checked={chosen.value.has(id)} onChange={() => toggle(id)} />
              <span class="cut">
                <Plain text={titleOf(id)} isCut />
              </span>
            </label>
            <When session={sessions.find(({ session }) => session === id)} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function When({ session }: { session: View<"SessionView"> | undefined }) {
  return (
    <span class="when">{session && <Moment at={session.active} />}</span>
  );
}

function Outcomes({ outcomes, titleOf }: { outcomes: ReadonlySignal<readonly Outcome[] | null>; titleOf: (id: string) => string }) {
  const all = outcomes.value;
  if (all === null) {
    return (
      <Empty icon="fork" title="Nothing has been tried yet">
        Where the other plugins would have ruled otherwise is shown here: the first difference in a session is exact, and what follows it would have been
        another session.
      </Empty>
    );
  }
  const parting = all.filter(({ view }) => view !== null && view.parts.length > 0).length;
  const compared = all.filter(({ view }) => view !== null && verdict(view) !== CUT).length;
  const rulings = all.reduce((sum, { view }) => sum + (view?.rulings ?? 0), 0);
  return (
    <div class="inbox-one">
      <p role="status" class="story-title">
        {compared === 0 ? "None was compared" : parting === 0 ? "None would have gone otherwise" : `${parting} of ${compared} would have gone otherwise`}
        <span class="soft small"> {rulings} rulings compared</span>
      </p>
      {all.map((outcome) => (
        <OutcomeCard key={outcome.session} outcome={outcome} title={titleOf(outcome.session)} />
      ))}
    </div>
  );
}

const CUT = "not compared to its end";

/** In a word, what came of a try on a session: one that was left out before anything differed may have gone otherwise. */
function verdict({ parts, skipped }: View<"WhatIfView">): string {
  if (parts.length === 0) return skipped ? CUT : "as it was";
  return parts.length === 1 ? "1 ruling differs" : `${parts.length} rulings differ`;
}

function OutcomeCard({ outcome: { session, view, problem }, title }: { outcome: Outcome; title: string }) {
  const untold = [...(view?.inexact ?? []), ...(view?.skipped ? [`Not compared further: ${view.skipped}`] : [])];
  return (
    <section class="card" aria-label={title}>
      <header>
        <h2>
          <a href={address(session, "timeline")}>
            <Plain text={title} />
          </a>
        </h2>
        <span class="soft small end">{view && verdict(view)}</span>
      </header>
      {problem && (
        <p class="is-bad what-if-words">
          <Plain text={problem} />
        </p>
      )}
      <ul class="rows">
        {view?.parts.map((part) => (
          <li>
            <Part session={session} part={part} />
          </li>
        ))}
      </ul>
      {untold.length > 0 && (
        <ul class="hint notes what-if-words">
          {untold.map((words) => (
            <li>
              <Plain text={words} />
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

/** One difference: where, and what both rule. */
function Part({ session, part: { record, turn, hook, call_id: call, then, now, guess } }: { session: string; part: Parting }) {
  return (
    <div class="grow what-if-part">
      <p class="line">
        <Icon name="fork" />
        <a class="strong" href={address(session, "record", record)}>
          Turn {turn}, record {record}
        </a>
        <code>{hook}</code>
        {call && <a href={address(session, "why", call)}>Why it went so</a>}
        {guess && <span class="pill">a guess</span>}
      </p>
      <dl class="facts">
        <dt>Then</dt>
        <dd>
          <Ticked text={capitalised(then.sentence)} />
        </dd>
        <dt>Now</dt>
        <dd>
          <Ticked text={capitalised(now.sentence)} />
        </dd>
      </dl>
    </div>
  );
}
