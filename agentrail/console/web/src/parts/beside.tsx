/** Another session beside the one of the room, and where their common past ends. */
import { useSignal } from "@preact/signals";
import type { Records } from "../store/records";
import { Plain } from "./plain";

/** Asks which session to show beside; the address has it. */
export function BesideForm({ other, show }: { other: string; show: (session: string) => void }) {
  const asked = useSignal(other);
  return (
    <form
      class="filter"
      onSubmit={(event) => {
        event.preventDefault();
        show(asked.value.trim());
      }}
    >
      <label>
        Beside it{" "}
        <input
          value={asked.value}
          placeholder="another session"
          spellcheck={false}
          onInput={(event) => (asked.value = event.currentTarget.value)}
        />
      </label>
      <button>Show beside</button>
      {other && (
        <button type="button" onClick={() => show("")}>
          Show alone
        </button>
      )}
    </form>
  );
}

interface Branch {
  readonly origin: string;
  readonly at: number;
}

/** Returns where a session began as a fork; null: it did not, or that is not known yet. */
function branchOf(records: Records): Branch | null {
  const first = records.get(1);
  if (first?.input.kind !== "SessionBranched") return null;
  const { origin, at } = JSON.parse(first.input.data.json) as Partial<Branch>;
  return typeof origin === "string" && typeof at === "number" ? { origin, at } : null;
}

/** Says up to which record two sessions have the same past. */
export function CommonPast({ left, right }: { left: Records; right: Records }) {
  void left.version.value;
  void right.version.value;
  const [mine, theirs] = [branchOf(left), branchOf(right)];
  return (
    <p role="status">
      {theirs?.origin === left.session ? (
        <ForkedFrom fork={right.session} branch={theirs} />
      ) : mine?.origin === right.session ? (
        <ForkedFrom fork={left.session} branch={mine} />
      ) : mine && theirs && mine.origin === theirs.origin ? (
        <>
          Both were forked from <Plain text={mine.origin} />: they have its records up to {Math.min(mine.at, theirs.at)} in
          common.
        </>
      ) : (
        "Neither was forked from the other, nor both from a third one."
      )}
    </p>
  );
}

function ForkedFrom({ fork, branch: { origin, at } }: { fork: string; branch: Branch }) {
  return (
    <>
      <Plain text={fork} /> was forked from <Plain text={origin} /> after record {at}: up to there they have the same past.
    </>
  );
}
