/** What one should look at first: what waits for a person, and what went wrong in the last hour, the oldest first. */
import type { View } from "../host/interface";
import { address } from "../route";
import { callTitle } from "../store/call_words";
import { capitalised } from "../store/capitalised";
import type { Rows } from "../store/rows";
import type { Trouble } from "../store/troubles";
import { useSignal } from "@preact/signals";
import { Icon } from "./icon";
import { Since } from "./moment";
import { Plain } from "./plain";

interface LookFirstProps {
  readonly held: readonly View<"HeldView">[];
  readonly troubles: readonly Trouble[];
  readonly rows: Rows | null;
}

const SHOWN = 4;

interface Line {
  readonly name: string;
  readonly at: number;
  readonly isTrouble: boolean;
  readonly title: string;
  readonly session: string;
  readonly href: string;
}

/** The lines, the last trouble of each kind in a session alone. */
function linesOf({ held, troubles }: LookFirstProps): Line[] {
  const last = new Map(troubles.toReversed().map((one) => [`${one.session} ${one.kind}`, one]));
  return [
    ...held.map((one) => ({
      name: `${one.session}/${one.id}`,
      at: one.since,
      isTrouble: false,
      title: callTitle(one),
      session: one.session,
      href: address(null, "inbox", one.session, one.id),
    })),
    ...[...last].map(([name, { at_ms: at, kind, text, session, cursor }]) => ({
      name,
      at,
      isTrouble: true,
      title: `${capitalised(kind)}: ${text}`,
      session,
      href: address(session, "event", cursor.split(".", 1)[0] ?? ""),
    })),
  ].sort((left, right) => left.at - right.at);
}

export function LookFirst(props: LookFirstProps) {
  const isWhole = useSignal(false);
  const lines = linesOf(props);
  if (lines.length === 0) return <p class="hint">Nobody waits for you, and nothing went wrong in the last hour.</p>;
  const titleOf = (session: string) => props.rows?.rows.get(session)?.title || session;
  return (
    <section class="card look-first" aria-label="Look here first">
      <header>
        <h2>Look here first</h2>
        <span class="end tiny soft">oldest first</span>
      </header>
      <ul class="rows">
        {lines.slice(0, isWhole.value ? undefined : SHOWN).map(({ name, at, isTrouble, title, session, href }) => (
          <li key={name}>
            <span class={isTrouble ? "is-bad" : "is-person"}>
              <Icon name={isTrouble ? "trouble" : "person"} />
            </span>
            <a class="over grow" href={href}>
              <span class="strong">
                <Plain text={title} />
              </span>{" "}
              <span class="soft">
                · <Plain text={titleOf(session)} />
              </span>
            </a>
            <span class="soft extra">
              <Since at={at} />
            </span>
            <span class="button slim" aria-hidden="true">
              {isTrouble ? "Why" : "Review"}
            </span>
          </li>
        ))}
      </ul>
      {lines.length > SHOWN && (
        <button type="button" class="bare slim" aria-expanded={isWhole.value} onClick={() => (isWhole.value = !isWhole.value)}>
          {isWhole.value ? "Show the oldest" : `Show all ${lines.length}`}
        </button>
      )}
    </section>
  );
}
