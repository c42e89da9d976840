/** All sessions that run, as the supervision tree has them, live; what one should look at first; and what can be done. */
import { useComputed, useSignal, type Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import type { QueryOf, View } from "../host/interface";
import { act, SILENT, Told, type Telling } from "../parts/action";
import { count, dollars, UNKNOWN } from "../parts/amounts";
import { Choice } from "../parts/choice";
import { Empty } from "../parts/empty";
import { Icon } from "../parts/icon";
import { LookFirst } from "../parts/look_first";
import { Menu } from "../parts/menu";
import { Meter } from "../parts/meter";
import { Since } from "../parts/moment";
import { NewSession } from "../parts/new_session";
import { Plain } from "../parts/plain";
import { ProblemNote } from "../parts/problem_note";
import { SearchField } from "../parts/search_field";
import { fork, pauseItem, REASON, stopItem, StopQuestion } from "../parts/session_commands";
import { StoredSessions } from "../parts/stored_sessions";
import { Table, type Column } from "../parts/table";
import { useHost } from "../host/host_context";
import type { RoomProps } from "../rooms";
import { address, go, replaceQuery } from "../route";
import { doingOf, isIn, isWorking, PARTS, type Part } from "../store/row_words";
import { inTree, useRows, type Row, type Rows, type TreeRow } from "../store/rows";
import { useTroubles, type Trouble } from "../store/troubles";
import { useWaiting, waitingCount } from "../store/waiting";

/** Rows that are asked for at first, and once somebody has scrolled to their end: as many as the host gives. */
const FIRST = 100;
const MOST = 10_000;
const TYPING_MS = 200;

const COLUMNS: readonly Column[] = [
  { title: "Session", width: "28%" },
  { title: "Agent", width: "6.5rem", isExtra: true },
  { title: "Doing" },
  { title: "For", width: "6rem", isNumber: true, isExtra: true, isWide: true },
  { title: "Model", width: "7.5rem", isExtra: true },
  { title: "Context", width: "8.5rem", isExtra: true, isWide: true },
  { title: "Cost", width: "5.5rem", isNumber: true, isExtra: true },
  { title: "Actions", isSilent: true, width: "3rem", isExtra: true },
];
/** At one of several hosts, the last column but one says at which. */
const HOST_COLUMNS: readonly Column[] = [...COLUMNS.slice(0, -1), { title: "Host", width: "10%", isExtra: true }, ...COLUMNS.slice(-1)];

const PART_WORDS: Readonly<Record<Part, string>> = { all: "All", held: "Need you", working: "Working", trouble: "In trouble", idle: "Idle" };

/** The orders in which sessions can be shown, and what is largest first. */
const ORDERS: Readonly<Record<string, ((row: Row) => number) | null>> = {
  "As started": null,
  "Longest at it": (row) => -(row.turn_since ?? Infinity),
  "Fullest context": (row) => (row.context_tokens ?? 0) / Math.max(1, row.context_window),
  "Highest cost": (row) => row.cost_usd ?? 0,
};

interface Filter {
  readonly search: string;
  readonly only: Part;
  /** Name of an agent, and of a model; empty: any. */
  readonly agent: string;
  readonly model: string;
  readonly order: string;
}

function queryOf(search: string, limit: number): QueryOf<"rows"> {
  return { limit, ...(search && { search }) };
}

export default function Now({ place }: RoomProps) {
  const filter = useSignal<Filter>({
    search: place.query.get("search") ?? "",
    only: PARTS.find((part) => part === place.query.get("only")) ?? "all",
    agent: "",
    model: "",
    order: "As started",
  });
  const asked = useSignal(filter.value.search);
  useEffect(() => {
    const { search, only } = filter.value;
    const timer = setTimeout(() => (asked.value = search), TYPING_MS);
    replaceQuery({ search, only: only === "all" ? "" : only });
    return () => clearTimeout(timer);
  }, [filter.value]);
  const most = useSignal(FIRST);
  const { rows, problem } = useRows(queryOf(asked.value, most.value));
  const isWhole = rows.value !== null && rows.value.rows.size >= rows.value.matching;
  const { only } = filter.value;
  // Those beyond the first rows are found by the host
  const isAsked = !isWhole && rows.value !== null && (only === "held" || only === "trouble");
  const found = useRows(isAsked ? { ...queryOf(asked.value, MOST), ...(only === "held" ? { held: true } : { trouble: true }) } : null).rows;
  const waiting = useWaiting();
  const held = new Map((waiting.view.value?.items ?? []).toReversed().map((one) => [one.session, one]));
  const troubles = useTroubles(rows);
  const closed = useSignal<ReadonlySet<string>>(new Set());
  const chosen = useSignal<string | null>(null);
  const hovered = useSignal<string | null>(null);
  const telling = useSignal<Telling>(SILENT);
  const hasStored = useSignal(false);
  const shown = useComputed(() => {
    const all = [...((isAsked ? found.value : rows.value)?.rows.values() ?? [])];
    return inTree(sorted(all.filter((row) => fits(row, filter.value)), filter.value.order), closed.value);
  });
  void isAsked; // the rows are computed anew with it
  const isSpread = shown.value.some(({ row: { host } }) => host);
  const setOpen = (session: string, isOpen: boolean) => {
    const next = new Set(closed.value);
    if (isOpen) next.delete(session);
    else next.add(session);
    closed.value = next;
  };
  const change = (more: Partial<Filter>) => (filter.value = { ...filter.value, ...more });
  const all = [...(rows.value?.rows.values() ?? [])];
  const total = rows.value?.total ?? 0;
  const cells = (tree: TreeRow) => {
    const { row } = tree;
    const hasMenu = row.session === chosen.value || row.session === hovered.value;
    return cellsOf(tree, held.get(row.session), isSpread, hasMenu && <RowMenu row={row} telling={telling} />);
  };
  return (
    <div class="room">
      <div class="room-head">
        <h1>Now</h1>
        <span class="grow" />
        <SearchField
          label="Search sessions"
          placeholder="Title, agent, person, model, tool"
          value={filter.value.search}
          change={(search) => change({ search })}
        />
        <NewSession telling={telling} />
      </div>
      <Told telling={telling} />
      {total > 0 && <AtAGlance rows={rows.value} waits={waitingCount(waiting)} held={waiting.view.value?.items ?? []} troubles={troubles.value} />}
      {total > 0 && <LookFirst held={waiting.view.value?.items ?? []} troubles={troubles.value} rows={rows.value} />}
      {problem.value && <ProblemNote problem={problem.value} />}
      {rows.value?.missing.map((host) => (
        <p key={host} role="alert" class="problem">
          <Plain text={host} /> does not answer: what runs there is not shown.
        </p>
      ))}
      {rows.value === null && !problem.value && <p role="status">Loading …</p>}
      {total > 0 && (
        <>
          <div class="room-head">
            <Choice
              label="Show"
              value={only}
              options={PARTS.map((part) => [part, PART_WORDS[part], isWhole ? all.filter((row) => isIn(row, part)).length : part === "all" ? total : null])}
              choose={(part) => change({ only: part })}
            />
            <span class="grow" />
            <span class="extra line">
              <NameMenu label="Agent" names={all.map(({ agent }) => agent)} chosen={filter.value.agent} choose={(agent) => change({ agent })} />
              <NameMenu label="Model" names={all.map(({ model }) => model)} chosen={filter.value.model} choose={(model) => change({ model })} />
              <Menu
                label={filter.value.order}
                items={Object.keys(ORDERS).map((order) => ({ label: order, isChosen: order === filter.value.order, act: () => change({ order }) }))}
              />
            </span>
          </div>
          <p role="status" class="hint" hidden={isWhole && rows.value?.matching === total}>
            {rows.value && counted(rows.value)}
          </p>
          {shown.value.length > 0 && (
            <div onMouseOver={(event) => hover(event, hovered)}>
              <Table
                rows={shown.value}
                label="Sessions that run"
                columns={isSpread ? HOST_COLUMNS : COLUMNS}
                idOf={({ row: { session } }) => session}
                levelOf={({ level }) => level}
                isOpen={({ isOpen }) => isOpen}
                setOpen={({ row: { session } }, isOpen) => setOpen(session, isOpen)}
                chosen={chosen.value}
                choose={(session) => (chosen.value = session)}
                open={({ row: { session } }) => go(address(session))}
                opensByClick
                cells={cells}
                reach={(last) => {
                  if (all.length >= FIRST && last >= shown.value.length) most.value = MOST;
                }}
              />
            </div>
          )}
          {shown.value.length === 0 && (
            <Empty
              icon="search"
              title={filter.value.search ? `No session matches “${filter.value.search}”` : `No session here is “${PART_WORDS[only]}”`}
              next={
                <span class="line">
                  <button type="button" onClick={() => (hasStored.value = true)}>
                    Search the stored ones
                  </button>
                  <button type="button" class="bare" onClick={() => change({ search: "", only: "all", agent: "", model: "" })}>
                    Clear
                  </button>
                </span>
              }
            >
              {total === 1 ? "1 session runs." : `${count(total)} sessions run.`}
            </Empty>
          )}
        </>
      )}
      {rows.value !== null && total === 0 && !problem.value && (
        <Empty icon="now" title="No session runs here" next={<pre>agentrail chat</pre>}>
          Each session that runs has a row here. Begin one above, or with a program.
        </Empty>
      )}
      <StoredSessions isOpen={hasStored.value || rows.value?.total === 0} />
    </div>
  );
}

function hover(event: MouseEvent, hovered: Signal<string | null>): void {
  if (document.querySelector("[popover]:popover-open") || !(event.target instanceof Element)) return;
  hovered.value = event.target.closest<HTMLElement>("tr[data-id]")?.dataset["id"] ?? null;
}

function fits(row: Row, { only, agent, model }: Filter): boolean {
  return isIn(row, only) && (!agent || row.agent === agent) && (!model || row.model === model);
}

function sorted(rows: readonly Row[], order: string): readonly Row[] {
  const weight = ORDERS[order];
  return weight ? rows.toSorted((left, right) => weight(right) - weight(left)) : rows;
}

function NameMenu(props: { label: string; names: readonly string[]; chosen: string; choose: (name: string) => void }) {
  const { label, chosen, choose } = props;
  const names = [...new Set(props.names)].filter(Boolean).sort();
  return (
    <Menu
      label={chosen || label}
      items={["", ...names].map((name) => ({ label: name || "Any", isChosen: name === chosen, act: () => choose(name) }))}
    />
  );
}

interface GlanceProps {
  readonly rows: Rows | null;
  readonly waits: string;
  readonly held: readonly View<"HeldView">[];
  readonly troubles: readonly Trouble[];
}

/** What the rows add up to. Of rows that are not all there, the sums are not told. */
function AtAGlance({ rows, waits, held, troubles }: GlanceProps) {
  const all = [...(rows?.rows.values() ?? [])];
  const isWhole = rows !== null && all.length >= rows.total;
  const oldest = Math.min(...held.map(({ since }) => since).filter(Boolean));
  const costs = all.map((row) => row.cost_usd);
  const known = costs.filter((cost) => cost !== null);
  const unpriced = costs.length - known.length;
  const cost = known.length ? dollars(known.reduce((sum, one) => sum + one, 0)) : UNKNOWN;
  return (
    <dl class="glance">
      <Glance name="Need you" role="is-person" text={waits || "0"}>
        {Number.isFinite(oldest) ? (
          <>
            oldest <Since at={oldest} />
          </>
        ) : (
          "nothing waits"
        )}
      </Glance>
      <Glance name="Working" role="is-work" text={isWhole ? count(all.filter(isWorking).length) : "–"}>
        of {count(rows?.total ?? 0)} {rows?.total === 1 ? "session" : "sessions"}
      </Glance>
      <Glance name="In trouble" role="is-bad" text={count(new Set(troubles.map(({ session }) => session)).size)}>
        in the last hour
      </Glance>
      <Glance name="Cost so far" text={isWhole ? cost : "–"}>
        {isWhole ? (unpriced ? `${unpriced} have no price` : "of these sessions") : "not all are loaded"}
      </Glance>
    </dl>
  );
}

function Glance(props: { name: string; role?: string; text: string; children: ComponentChildren }) {
  const { name, role, text, children } = props;
  return (
    <div>
      <dt>
        {role && <span class={`dot still ${role}`} aria-hidden="true" />}
        {name}
      </dt>
      <dd class="big">{text}</dd>
      <dd class="tiny soft">{children}</dd>
    </div>
  );
}

function counted({ rows, matching, total }: Rows): string {
  const fit = matching === total ? `${count(total)} sessions run` : `${count(matching)} of ${count(total)} sessions fit`;
  return rows.size < matching ? `${fit}; the first ${count(rows.size)} are shown, and the search finds the others.` : `${fit}.`;
}

function cellsOf({ row, level, isOpen }: TreeRow, held: View<"HeldView"> | undefined, isSpread: boolean, menu: ComponentChildren) {
  const { role, words, since } = doingOf(row, held);
  return [
    <span class="line" style={{ paddingInlineStart: `${(level - 1) * 1.25}rem` }}>
      {level > 1 && (
        <span class="is-sub">
          <Icon name="subagent" />
        </span>
      )}
      {row.trouble && role !== "is-bad" && (
        <span class="is-bad" role="img" aria-label={`trouble: ${row.trouble.kind}`}>
          <Icon name="trouble" />
        </span>
      )}
      <a class="cut strong over-row" href={address(row.session)} tabIndex={-1}>
        <Plain text={row.title || row.session} isCut />
      </a>
      {isOpen === false && <span class="tiny soft">…</span>}
    </span>,
    <span class="soft">
      <Plain text={row.agent} isCut />
    </span>,
    <span class={`state ${role}`}>
      <span class={`dot ${role}`} aria-hidden="true" />
      <span class="cut">
        <Plain text={words} isCut />
      </span>
    </span>,
    <span class="soft">{since !== null && <Since at={since} />}</span>,
    <span class="soft">
      <Plain text={row.model} isCut />
    </span>,
    row.context_tokens === null ? (
      <span class="soft">{UNKNOWN}</span>
    ) : (
      <Meter used={row.context_tokens} of={row.context_window} label={`${count(row.context_tokens)} tokens`} />
    ),
    row.cost_usd === null ? <span class="soft">no price</span> : dollars(row.cost_usd),
    ...(isSpread ? [<Plain text={row.host} />] : []),
    menu,
  ];
}

function RowMenu({ row, telling }: { row: Row; telling: Signal<Telling> }) {
  const host = useHost();
  const isStopping = useSignal(false);
  const doing = async (done: string, action: () => Promise<unknown>) => {
    await act(telling, `${done}: ${row.title || row.session}`, action);
  };
  const items = [
    { label: "Open", act: () => go(address(row.session)) },
    pauseItem(host, row.session, row.suspended, doing),
    {
      label: "Stop the turn",
      act: () => void doing("Stopped the turn", () => host.call("abort", { session: row.session, body: REASON })),
    },
    { label: "Fork", act: () => void doing("Forked", () => fork(host, row.session)) },
    stopItem(isStopping),
  ];
  const head = (
    <>
      <code class="tiny">
        <Plain text={row.session} />
      </code>
      <p class="tiny">
        <Plain text={row.user} />, turn {row.turn}, {count(row.tokens)} tokens
        {row.restarts > 0 && `, restarted ${row.restarts} times`}
        {row.host && (
          <>
            , at <Plain text={row.host} />
          </>
        )}
      </p>
    </>
  );
  return (
    <>
      <Menu label={`More about ${row.title || row.session}`} kind="bare square slim" items={items} head={head}>
        <Icon name="more" />
      </Menu>
      <StopQuestion session={row.session} isStopping={isStopping} doing={doing} />
    </>
  );
}
