/** What one can do with the session that is chosen. */
import type { Signal } from "@preact/signals";
import { useHost } from "../host/host_context";
import { address, go } from "../route";
import type { Row } from "../store/rows";
import { act, ActionButton, type Telling } from "./action";
import { ConfirmedButton } from "./confirmed_button";
import { count, dollars } from "./amounts";
import { Plain } from "./plain";

export function RowActions({ row, telling }: { row: Row; telling: Signal<Telling> }) {
  const host = useHost();
  const about = { session: row.session };
  const doing = async (done: string, action: () => Promise<unknown>) => {
    await act(telling, `${done}: ${row.session}`, action);
  };
  const fork = () =>
    doing("Forked", async () => go(address((await host.call("fork", { ...about, body: {} })).session)));
  return (
    <section class="row-actions" aria-label="The chosen session">
      <h2>
        <a href={address(row.session)}>
          <Plain text={row.title || row.session} />
        </a>
      </h2>
      <p>
        <Plain text={row.agent} /> of <Plain text={row.user} />, turn {row.turn}, {count(row.tokens)} tokens,{" "}
        {dollars(row.cost_usd)}
        {row.restarts > 0 && `, restarted ${row.restarts} times`}
        {row.host && (
          <>
            , at <Plain text={row.host} />
          </>
        )}
      </p>
      {row.trouble && (
        <p class="problem">
          {row.trouble.kind}: <Plain text={row.trouble.text} />
        </p>
      )}
      <div class="actions">
        <ActionButton kind="main-action" act={async () => go(address(row.session))}>
          Open
        </ActionButton>
        {row.suspended ? (
          <ActionButton act={() => doing("Resumed", () => host.call("resume", about))}>Resume</ActionButton>
        ) : (
          <ActionButton act={() => doing("Suspended", () => host.call("suspend", about))}>Suspend</ActionButton>
        )}
        <ActionButton act={() => doing("Aborted", () => host.call("abort", { ...about, body: { reason: "aborted in the console" } }))}>
          Abort the turn
        </ActionButton>
        <ActionButton act={fork}>Fork</ActionButton>
        <ConfirmedButton
          label="Stop for good"
          question="It ends and cannot go on."
          act={() => doing("Stopped", () => host.call("stop", { ...about, body: { reason: "stopped in the console" } }))}
        />
      </div>
    </section>
  );
}
