/** All sessions that run, as the supervision tree has them, live; what went wrong; and what one can do about it. */
import { useComputed, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { QueryOf } from "../host/interface";
import { SILENT, Told, type Telling } from "../parts/action";
import { count, dollars, UNKNOWN } from "../parts/amounts";
import { Meter } from "../parts/meter";
import { Since } from "../parts/moment";
import { OpenSession } from "../parts/open_session";
import { Plain } from "../parts/plain";
import { ProblemNote } from "../parts/problem_note";
import { RowActions } from "../parts/row_actions";
import { StoredSessions } from "../parts/stored_sessions";
import { TroubleStrip } from "../parts/trouble_strip";
import { VirtualList } from "../parts/virtual_list";
import type { RoomProps } from "../rooms";
import { address, go, replaceQuery } from "../route";
import { activity } from "../store/activity";
import { inTree, useRows, type Row, type Rows, type TreeRow } from "../store/rows";
import { useWaiting, waitingCount } from "../store/waiting";

/** Rows that are asked for at first, and once somebody has scrolled to their end: as many as the host gives. */
const FIRST = 100;
const MOST = 10_000;
const TYPING_MS = 200;
const PHASES = ["idle", "running", "streaming", "executing_tools", "asleep"] as const;
const COLUMNS = ["Session", "Does", "Model", "Waits", "Context", "Cost"] as const;
/** At one of several hosts, the last column says at which. */
const HOST_COLUMNS = [...COLUMNS, "Host"] as const;

interface Filter {
  readonly search: string;
  readonly phase: string;
  readonly only: string;
}

function queryOf({ search, phase, only }: Filter, limit: number): QueryOf<"rows"> {
  return {
    limit,
    ...(search && { search }),
    ...(phase && { phase }),
    ...(only === "held" && { held: true }),
    ...(only === "trouble" && { trouble: true }),
  };
}

export default function Now({ place }: RoomProps) {
  const filter = useSignal<Filter>({
    search: place.query.get("search") ?? "",
    phase: place.query.get("phase") ?? "",
    only: place.query.get("only") ?? "",
  });
  const asked = useSignal(filter.value);
  useEffect(() => {
    const timer = setTimeout(() => (asked.value = filter.value), TYPING_MS);
    replaceQuery({ ...filter.value });
    return () => clearTimeout(timer);
  }, [filter.value]);
  const most = useSignal(FIRST);
  const { rows, problem } = useRows(queryOf(asked.value, most.value));
  const closed = useSignal<ReadonlySet<string>>(new Set());
  const chosen = useSignal<string | null>(null);
  const telling = useSignal<Telling>(SILENT);
  const shown = useComputed(() => inTree(rows.value?.rows ?? new Map<string, Row>(), closed.value));
  const isSpread = useComputed(() => shown.value.some(({ row: { host } }) => host));
  const row = chosen.value === null ? undefined : rows.value?.rows.get(chosen.value);
  const setOpen = (session: string, isOpen: boolean) => {
    const next = new Set(closed.value);
    if (isOpen) next.delete(session);
    else next.add(session);
    closed.value = next;
  };
  return (
    <>
      <h1>Now</h1>
      <AtAGlance rows={rows.value} />
      <TroubleStrip rows={rows} />
      <FilterForm filter={filter.value} change={(next) => (filter.value = next)} />
      {problem.value && <ProblemNote problem={problem.value} />}
      <p role="status" class="hint">
        {rows.value === null ? "Loading …" : counted(rows.value.rows.size, rows.value.matching, rows.value.total)}
      </p>
      {rows.value?.missing.map((host) => (
        <p key={host} role="alert" class="problem">
          <Plain text={host} /> does not answer: what runs there is not shown.
        </p>
      ))}
      <VirtualList
        rows={shown.value}
        label="Sessions that run"
        columns={isSpread.value ? HOST_COLUMNS : COLUMNS}
        idOf={({ row: { session } }) => session}
        levelOf={({ level }) => level}
        isOpen={({ isOpen }) => isOpen}
        setOpen={({ row: { session } }, isOpen) => setOpen(session, isOpen)}
        chosen={chosen.value}
        choose={(session) => (chosen.value = session)}
        open={({ row: { session } }) => go(address(session))}
        cells={isSpread.value ? hostCells : cells}
        reach={(last) => {
          if ((rows.value?.rows.size ?? 0) >= FIRST && last >= shown.value.length) most.value = MOST;
        }}
      />
      <Told telling={telling} />
      {row && <RowActions key={row.session} row={row} telling={telling} />}
      {chosen.value !== null && !row && rows.value !== null && <p>The chosen session does not run any more.</p>}
      <div class="now-more">
        <OpenSession telling={telling} />
        <StoredSessions isOpen={rows.value?.total === 0} />
      </div>
    </>
  );
}

/** What the rows add up to. Rows that are not shown are in none of these, so of these the whole is not told. */
function AtAGlance({ rows }: { rows: Rows | null }) {
  const waiting = waitingCount(useWaiting());
  const all = [...(rows?.rows.values() ?? [])];
  if (rows === null || all.length === 0 || all.length < rows.total) return null;
  const costs = all.map((row) => row.cost_usd);
  const known = costs.filter((cost) => cost !== null);
  const cost = known.length ? dollars(known.reduce((sum, one) => sum + one, 0)) : UNKNOWN;
  const unpriced = known.length && known.length < costs.length ? `, and ${costs.length - known.length} unknown` : "";
  return (
    <dl class="glance">
      <Glance name="Sessions run" text={count(rows.total)} />
      <Glance name="At work" text={count(all.filter((row) => row.turn_since !== null && !row.waits).length)} />
      <Glance name="Decisions wait" text={waiting || "none"} />
      <Glance name="They have cost" text={`${cost}${unpriced}`} />
    </dl>
  );
}

function Glance({ name, text }: { name: string; text: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{text}</dd>
    </div>
  );
}

function counted(shown: number, matching: number, total: number): string {
  const fit = matching === total ? `${count(total)} sessions run` : `${count(matching)} of ${count(total)} sessions fit`;
  return shown < matching ? `${fit}; the first ${count(shown)} are shown, and the search finds the others.` : `${fit}.`;
}

function FilterForm({ filter, change }: { filter: Filter; change: (filter: Filter) => void }) {
  return (
    <form class="filter" role="search" aria-label="In what runs" onSubmit={(event) => event.preventDefault()}>
      <label>
        Search{" "}
        <input
          type="search"
          value={filter.search}
          placeholder="id, title, agent, user, model, tool"
          onInput={(event) => change({ ...filter, search: event.currentTarget.value })}
        />
      </label>
      <label>
        Phase{" "}
        <select value={filter.phase} onChange={(event) => change({ ...filter, phase: event.currentTarget.value })}>
          <option value="">any</option>
          {PHASES.map((phase) => (
            <option value={phase}>{phase}</option>
          ))}
        </select>
      </label>
      <label>
        Only{" "}
        <select value={filter.only} onChange={(event) => change({ ...filter, only: event.currentTarget.value })}>
          <option value="">all</option>
          <option value="held">those that wait for a person</option>
          <option value="trouble">those in trouble</option>
        </select>
      </label>
    </form>
  );
}

function cells({ row, level, isOpen }: TreeRow) {
  return [
    <span style={{ paddingInlineStart: `${level - 1}rem` }}>
      <span aria-hidden="true">{isOpen === null ? "" : isOpen ? "▾ " : "▸ "}</span>
      {row.trouble && (
        <span class="mark bad" role="img" aria-label={`trouble: ${row.trouble.kind}`}>
          !
        </span>
      )}
      <Plain text={row.title || row.session} />
      {row.title && (
        <span class="id">
          <Plain text={row.session} />
        </span>
      )}
    </span>,
    <Does row={row} />,
    <Plain text={row.model} />,
    waits(row),
    row.context_tokens === null ? (
      UNKNOWN
    ) : (
      <Meter used={row.context_tokens} of={row.context_window} label={`${count(row.context_tokens)} tokens`} />
    ),
    dollars(row.cost_usd),
  ];
}

function hostCells(shown: TreeRow) {
  return [...cells(shown), <Plain text={shown.row.host} />];
}

function Does({ row }: { row: Row }) {
  const [call] = row.running;
  if (row.suspended) return <>suspended</>;
  if (call) {
    return (
      <>
        <Plain text={call.tool} /> <Since at={call.since} />
        {row.calls > 1 && ` and ${row.calls - 1} more`}
      </>
    );
  }
  return (
    <>
      {row.state === "running" ? activity(row) : row.state}
      {row.turn_since !== null && (
        <>
          {" "}
          <Since at={row.turn_since} />
        </>
      )}
    </>
  );
}

function waits({ held, queued, steering, quarantined }: Row): string {
  const parts = [
    held ? `${held} for a person` : "",
    queued ? `${queued} queued` : "",
    steering ? `${steering} steering` : "",
    quarantined ? `${quarantined} quarantined` : "",
  ];
  return parts.filter(Boolean).join(", ") || "–";
}
