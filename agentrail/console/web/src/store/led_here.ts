/** What led to a call that waits: what was asked for, and what happened last in its session. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { useHost } from "../host/host_context";
import { Refused } from "../host/socket";
import { happened, kindOf, type Kind } from "./record_words";

/** Records that are looked at. */
const LAST = 40;
const SHOWN = 3;

export interface Step {
  readonly record: number;
  readonly at: number;
  readonly kind: Kind;
  readonly sentence: string;
}

/** Asks for it once for each call; empty while it is not known, or if the key may not see it. */
export function useLedHere(session: string, call: string): readonly Step[] {
  const host = useHost();
  const steps = useSignal<readonly Step[]>([]);
  useEffect(() => {
    let isOver = false;
    const ask = async () => {
      const { records } = await host.call("show_session", { session });
      const page = await host.call("records", { session, query: { since: Math.max(0, records - LAST), limit: LAST } });
      const all = page.records.map((record) => ({ record: record.number, at: record.at_ms, kind: kindOf(record), sentence: happened(record) }));
      const asked = all.findLast(({ kind }) => kind === "person");
      const rest = all.filter((step) => step !== asked && step.kind !== "waits" && (!asked || step.record > asked.record));
      return [...(asked ? [asked] : []), ...rest.slice(-(SHOWN - 1))];
    };
    ask().then(
      (found) => {
        if (!isOver) steps.value = found;
      },
      (error: unknown) => {
        if (!(error instanceof Refused)) throw error;
      },
    );
    return () => {
      isOver = true;
    };
  }, [host, session, call]);
  return steps.value;
}
