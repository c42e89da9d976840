/** The passages that the answers of one session cite. */
import type { Signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { address } from "../route";
import { useAnswer } from "../store/answer";
import { Empty } from "./empty";
import { Menu } from "./menu";
import { PassageLink } from "./passage_link";
import { Plain } from "./plain";
import { ProblemNote } from "./problem_note";
import { moveFocus } from "./row_keys";

/** The most sessions that are offered, the last active ones. */
const OFFERED = 50;

export function CitedPassages({ store, session }: { store: string; session: Signal<string> }) {
  const ofAll = useAnswer("list_sessions", null, { owner: "*", limit: OFFERED }).value;
  const own = useAnswer("list_sessions", null, { limit: OFFERED }).value; // a key may see these alone
  const sessions = (ofAll.value ?? own.value)?.items ?? [];
  const titles = new Map(sessions.map((one) => [one.session, one.title || one.session]));
  const ids = [...new Set([...(session.value ? [session.value] : []), ...titles.keys()])];
  const titleOf = (id: string) => titles.get(id) ?? id;
  return (
    <>
      {ids.length > 0 && (
        <div class="line">
          <Menu
            label={session.value ? titleOf(session.value) : "Choose a session"}
            kind="slim"
            items={ids.map((id) => ({ label: titleOf(id), isChosen: id === session.value, act: () => (session.value = id) }))}
          />
          {session.value && (
            <a class="small" href={address(session.value)}>
              To the conversation
            </a>
          )}
        </div>
      )}
      {session.value ? (
        <CitedIn key={session.value} store={store} session={session.value} />
      ) : (
        <Empty icon="book" title={ids.length > 0 ? "No session is chosen" : "No session yet"}>
          The passages that the answers of a session cite are shown here.
        </Empty>
      )}
    </>
  );
}

function CitedIn({ store, session }: { store: string; session: string }) {
  const { value, problem } = useAnswer("cited", session, { store }).value;
  useEffect(() => moveFocus(".passages .passage-link"), []);
  if (problem) return <ProblemNote problem={problem} />;
  if (!value) return <p role="status">Loading …</p>;
  return (
    <>
      {value.items.length === 0 && <p role="status">No answer of this session cites a passage of the store.</p>}
      <ul class="passages card">
        {value.items.map((passage) => (
          <li key={`${passage.message} ${passage.citation}`} class="line small">
            <PassageLink store={store} passage={passage} />
            {passage.start === null && <span class="pill is-bad">not in the store</span>}
            <span class="when">message {passage.message + 1}</span>
          </li>
        ))}
      </ul>
      {value.cut && (
        <p class="hint">
          There may be more: the last answers of <Plain text={session} /> were looked at.
        </p>
      )}
    </>
  );
}
