/** Why a call, a turn or an end came about: the answer as a headline, and the story behind it, step by step. */
import "../style/insight.css";
import { useSignal } from "@preact/signals";
import type { View } from "../host/interface";
import { Icon, type IconName } from "../parts/icon";
import { Moment } from "../parts/moment";
import { usePageKeys } from "../parts/page_keys";
import { Plain } from "../parts/plain";
import { ProblemNote } from "../parts/problem_note";
import { SearchField } from "../parts/search_field";
import { Ticked } from "../parts/ticked";
import type { SessionRoomProps } from "../rooms";
import { address, go } from "../route";
import { useAnswer } from "../store/answer";
import { useCalls, type Calls } from "../store/calls";
import { capitalised } from "../store/capitalised";
import { isBad, type Span } from "../store/timeline";

const END = "end";

export default function Why({ session, place }: SessionRoomProps) {
  const calls = useCalls(session);
  // Without a question in the address: what waits for a person, or else what happened last
  const about = place.rest[0] ?? (calls ? (calls.waiting ?? END) : null);
  if (about === null) return <p role="status">Loading …</p>;
  return (
    <div class="two">
      <div class="stay">
        <Subjects session={session} about={about} calls={calls} />
      </div>
      <Account session={session} about={about} calls={calls} />
    </div>
  );
}

/** The most calls of the list. */
const MOST = 30;

/** What one can ask about: what waits, the last calls, the last end; and by its id or number whatever is not in the list. */
function Subjects({ session, about, calls }: { session: string; about: string; calls: Calls | null }) {
  const text = useSignal("");
  const wanted = text.value.trim().toLowerCase();
  const all = calls?.spans ?? [];
  const found = all.filter(({ id, label, outcome }) => !wanted || `${id} ${label} ${outcome}`.toLowerCase().includes(wanted));
  const spans = found.slice(0, MOST);
  const subjects = [...spans.map(({ id }) => id), END];
  const move = (by: number) => {
    const to = subjects[Math.min(Math.max(subjects.indexOf(about) + by, 0), subjects.length - 1)];
    if (to !== undefined) go(address(session, "why", to));
  };
  usePageKeys({ j: () => move(1), k: () => move(-1) });
  const ask = (event: Event) => {
    event.preventDefault();
    const only = /^\d+$/.test(wanted) || wanted === END || spans.length !== 1 ? text.value.trim() || END : (spans[0]?.id ?? END);
    go(address(session, "why", only));
  };
  return (
    <>
      <form class="filter ask" onSubmit={ask}>
        <SearchField label="Call, turn or plugin" placeholder="Call, turn number, or end" value={text.value} change={(next) => (text.value = next)} />
      </form>
      <nav class="card subjects" aria-label="What one can ask about">
        {spans.map((span) => (
          <Subject key={span.id} session={session} span={span} about={about} isWaiting={span.id === calls?.waiting} />
        ))}
        <a href={address(session, "why", END)} aria-current={about === END ? "page" : undefined}>
          <span class="soft">
            <Icon name="clock" />
          </span>
          <span class="grow strong">How it ended last</span>
        </a>
      </nav>
      {found.length > MOST && <p class="hint">The timeline has the calls before.</p>}
      {calls && all.length === 0 && <p class="hint">It has called nothing of late.</p>}
      {calls && all.length > 0 && spans.length === 0 && <p class="hint">No call fits. Enter asks about “{text.value.trim()}” itself.</p>}
    </>
  );
}

function Subject({ session, span, about, isWaiting }: { session: string; span: Span; about: string; isWaiting: boolean }) {
  const { id, label, outcome, start_ms: at } = span;
  const [icon, role]: readonly [IconName, string] = isWaiting ? ["clock", "is-person"] : !outcome ? ["tool", "is-work"] : isBad(span) ? ["cross", "is-bad"] : ["check", "is-good"];
  return (
    <a href={address(session, "why", id)} aria-current={about === id ? "page" : undefined}>
      <span class={role}>
        <Icon name={icon} />
      </span>
      <span class="grow">
        <span class="strong cut">
          <Plain text={label || id} isCut />
        </span>
        <span class="tiny soft">
          {isWaiting ? "waits for you" : outcome || "under way"} · <Moment at={at} />
        </span>
      </span>
    </a>
  );
}

function Account({ session, about, calls }: { session: string; about: string; calls: Calls | null }) {
  const { value: account, problem, isLate } = useAnswer("why", session, { about }).value;
  const turn = /^\d+$/.test(about) ? Number(about) : null;
  const call = calls?.spans.find(({ id }) => id === about);
  return (
    <article class="story" aria-label="The account" aria-busy={isLate}>
      <div>
        <p class="small soft">
          {call ? (
            <>
              Why did{" "}
              <code>
                <Plain text={call.label || about} />
              </code>{" "}
              come out so?
            </>
          ) : turn !== null ? (
            `Why did turn ${turn} go so?`
          ) : about === END ? (
            "Why did it end so?"
          ) : (
            <Plain text={about} />
          )}
        </p>
        {account && (
          <h2 class="story-title" aria-live="polite">
            <Ticked text={capitalised(answerOf(account))} />
          </h2>
        )}
      </div>
      {problem && <ProblemNote problem={problem} />}
      {!account && isLate && <p role="status">Loading …</p>}
      {account && (
        <ol class="story-steps">
          {call && <Wanted session={session} call={call} calls={calls} />}
          {stepsOf(account.entries).map((entry) => (
            <Step session={session} entry={entry} rules={account.rules} />
          ))}
        </ol>
      )}
      {account && (
        <p class="hint">
          <a href={`${address(null, "what-if")}?session=${encodeURIComponent(session)}`}>What if</a> it had had other plugins, or other options of these? Nothing runs.
        </p>
      )}
      {account?.more && <p>There is more, which is not shown.</p>}
      {turn !== null && (
        <p class="actions">
          {turn > 1 && (
            <a class="button slim" href={address(session, "why", turn - 1)}>
              Turn {turn - 1}
            </a>
          )}
          <a class="button slim" href={address(session, "why", turn + 1)}>
            Turn {turn + 1}
          </a>
        </p>
      )}
    </article>
  );
}

type Entry = View<"AccountEntryView">;
type Rules = View<"AccountView">["rules"];

/** The rule of a hook that no plugin has: there is nothing to tell of it. */
const NOBODY = "nobody_asked";

/** Returns the entries that tell something new: that a call waits is told by the hook that held it, and not by the event too. */
function stepsOf(entries: readonly Entry[]): Entry[] {
  return inOrder(entries).filter(({ event, rule, record }, index) => {
    const before = entries[index - 1];
    const isTold = event === "ApprovalRequired" && before?.rule === "hold" && before.record === record;
    return !isTold && rule !== NOBODY;
  });
}

/** Returns the entries in the order of their causes: that somebody approved comes before the plugins that were then asked. */
function inOrder(entries: readonly Entry[]): Entry[] {
  const rank = ({ event }: Entry) => (event === "ApprovalResolved" ? 0 : 1);
  return entries.toSorted((left, right) => left.record - right.record || rank(left) - rank(right));
}

/** Returns a sentence without the arguments that follow it, which stand elsewhere. */
function shortened(sentence: string): string {
  return sentence.replace(/: `[^`]*` wants to run with \{.*\}$/s, "");
}

/** Returns what became of what is asked about, and who decided that. */
function answerOf({ sentence, entries }: View<"AccountView">): string {
  if (entries.at(-1)?.event !== "ToolExecutionEnd") return shortened(sentence);
  const approval = entries.find(({ event }) => event === "ApprovalResolved")?.sentence.replace(/^.*? was (?=approved)/s, "");
  const holder = entries.find(({ rule }) => rule === "hold")?.plugins.find(({ decided }) => decided)?.plugin;
  if (approval) return `${sentence}: ${approval}${holder ? `, after ${holder} had held it` : ""}`;
  return entries.some(({ rule }) => rule === "all_passed") ? `${sentence}: nobody objected` : sentence;
}

/** Returns the sentence of a hook without its name and its rule, which can be opened beside it. */
function ofHook(sentence: string): string {
  return shortened(sentence.replace(/^`\w+`: /, "").replace(/ \([^()]*\)$/, ""));
}

const EVENTS: Readonly<Record<string, readonly [IconName, string]>> = {
  ApprovalRequired: ["person", "is-person"],
  ApprovalResolved: ["person", "is-person"],
  AskUser: ["question", "is-person"],
  ResultRequired: ["tool", "is-person"],
  UserResponded: ["person", "is-person"],
  ToolExecutionStart: ["tool", "is-work"],
  ToolExecutionEnd: ["check", "is-good"],
  AgentEnd: ["check", "is-good"],
  ToolBlocked: ["cross", "is-bad"],
  AgentAbort: ["cross", "is-bad"],
  HandedOff: ["subagent", "is-sub"],
};

const RULES: Readonly<Record<string, string>> = { hold: "is-person", block: "is-bad", abort: "is-bad" };

/** Returns the icon of an entry, and its colour. */
function lookOf({ event, rule, sentence }: Entry): readonly [IconName, string] {
  if (event === null) return ["shield", RULES[rule ?? ""] ?? "is-good"];
  if (/\berror\b|failed/.test(sentence)) return ["cross", "is-bad"];
  return EVENTS[event] ?? ["note", "soft"];
}

/** The first step of a call: the model wanted it. */
function Wanted({ session, call, calls }: { session: string; call: Span; calls: Calls | null }) {
  const request = calls?.requests.get(call.first);
  return (
    <li class="step">
      <span class="face is-work">
        <Icon name="model" />
      </span>
      <div class="step-head">
        <h3>
          The model wanted <code>{<Plain text={call.label || call.id} />}</code>
        </h3>
        <When session={session} at={call.start_ms} record={call.first} />
      </div>
      {request && (
        <p class="small soft">
          <a href={address(session, "seen", request)}>What the model saw</a>
        </p>
      )}
    </li>
  );
}

function When({ session, at, record }: { session: string; at: number; record: number }) {
  return (
    <span class="tiny soft">
      <Moment at={at} /> · <a href={address(session, "record", record)}>record {record}</a>
    </span>
  );
}

/** What a step says of itself: of plugins, how many were asked, and which of them decided. */
function titleOf({ sentence, hook, rule, plugins }: Entry): string {
  if (hook === null) return capitalised(shortened(sentence));
  if (rule === "all_passed") return "Nobody objected";
  const decided = plugins.find((step) => step.decided);
  if (rule !== "hold" || !decided) return capitalised(ofHook(sentence));
  return plugins.length === 1 ? `${decided.plugin} held it` : `${plugins.length} plugins stood in line; ${decided.plugin} held it`;
}

function Step({ session, entry, rules }: { session: string; entry: Entry; rules: Rules }) {
  const { record, at_ms: at, hook, rule, plugins } = entry;
  const [icon, role] = lookOf(entry);
  return (
    <li class="step">
      <span class={`face ${role}`}>
        <Icon name={icon} />
      </span>
      <div class="step-head">
        <h3>
          <Ticked text={titleOf(entry)} />
        </h3>
        <When session={session} at={at} record={record} />
        {rule && plugins.length === 0 && <Rule name={rule} hook={hook} rules={rules} />}
      </div>
      {plugins.length > 0 && (
        <section class="card">
          <ol class="rows">
            {plugins.map(({ plugin, sentence: said, rule: theirs, decided }) => (
              <li class={decided ? "decided" : ""} aria-label={decided ? "This one decided" : undefined}>
                <span class={decided ? role : "soft"}>
                  <Icon name={decided ? icon : "check"} />
                </span>
                <span class="grow">
                  <b class="strong">
                    <Plain text={plugin} />
                  </b>{" "}
                  <Ticked text={shortened(said).replace(`\`${plugin}\` `, "")} />
                  {(theirs ?? (decided ? rule : null)) && <Rule name={theirs ?? rule ?? ""} hook={hook} rules={rules} />}
                </span>
              </li>
            ))}
          </ol>
        </section>
      )}
    </li>
  );
}

/** The name of a rule; it unfolds to the sentence that the docs have about it, and the hook. */
function Rule({ name, hook, rules }: { name: string; hook: string | null; rules: Rules }) {
  return (
    <details class="rule">
      <summary>rule: {name.replaceAll("_", " ")}</summary>
      {rules[name]}
      {hook && (
        <>
          {" "}
          (<code>{hook}</code>)
        </>
      )}
    </details>
  );
}
