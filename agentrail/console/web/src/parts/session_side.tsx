/** Beside the conversation: what the session does and has used, its plugins in order, and how it can be changed. */
import { useSignal, type Signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { indented, write } from "../host/exact_json";
import { useHost } from "../host/host_context";
import type { View } from "../host/interface";
import { Refused } from "../host/socket";
import { address, go } from "../route";
import { activity } from "../store/activity";
import type { Detail } from "../store/detail";
import type { LiveConversation } from "../store/live_conversation";
import { act, ActionButton, type Telling } from "./action";
import { count, dollars } from "./amounts";
import { ContextBar } from "./context_bar";
import { History } from "./history";
import { OptionForm } from "./option_form";
import { Plain } from "./plain";

interface SideProps {
  readonly session: string;
  readonly live: LiveConversation;
  readonly detail: Detail;
  readonly telling: Signal<Telling>;
}

export function SessionSide(props: SideProps) {
  const { live, detail } = props;
  void live.version.value;
  const view = detail.view.value;
  return (
    <aside class="side" aria-label="About the session">
      {view && <StatusFacts view={view} live={live} />}
      {view?.context && <ContextBar context={view.context} />}
      <Todos todos={live.conversation.status.todos} />
      {view && <Changes {...props} view={view} />}
      <History session={props.session} />
    </aside>
  );
}

function StatusFacts({ view, live }: { view: View<"DetailView">; live: LiveConversation }) {
  void live.version.value;
  const { status } = view;
  const shown = live.conversation.status;
  const usage = status?.usage;
  return (
    <section>
      <h2>Status</h2>
      <dl class="facts">
        <dt>Agent</dt>
        <dd>
          <Plain text={view.agent} />
        </dd>
        <dt>Owner</dt>
        <dd>
          <Plain text={view.owner} />
        </dd>
        <dt>Phase</dt>
        <dd>{view.ended ? "ended" : status ? activity({ phase: shown.phase, waits: status.waits }) : "does not run now"}</dd>
        <dt>Model</dt>
        <dd>
          <Plain text={status?.model ?? shown.model} />
        </dd>
        <dt>Turn, round</dt>
        <dd>
          {status?.turn ?? shown.turn}, {status?.round ?? shown.round}
        </dd>
        {status && status.held.length > 0 && (
          <>
            <dt>Waits for a person</dt>
            <dd>
              <a href={address(null, "inbox")}>{status.held.length}</a>
            </dd>
          </>
        )}
        {status && status.quarantined.length > 0 && (
          <>
            <dt>Quarantined calls</dt>
            <dd>{status.quarantined.length}</dd>
          </>
        )}
        {usage && (
          <>
            <dt>Tokens read</dt>
            <dd>
              {count(usage.input_tokens)}, of these cached {count(usage.cached_tokens)}
            </dd>
            <dt>Tokens written</dt>
            <dd>{count(usage.output_tokens)}</dd>
            <dt>Cost</dt>
            <dd>{dollars(usage.cost_usd)}</dd>
          </>
        )}
      </dl>
      {view.problem && (
        <p role="alert" class="problem">
          <Plain text={view.problem} />
        </p>
      )}
      {view.labels.length > 0 && (
        <p>
          Labels: <Plain text={view.labels.join(", ")} />
        </p>
      )}
    </section>
  );
}

function Todos({ todos }: { todos: readonly View<"Todo">[] }) {
  if (todos.length === 0) return null;
  return (
    <section>
      <h2>To do</h2>
      <ul>
        {todos.map((todo) => (
          <li>
            <Plain text={todo.text} /> ({todo.status ?? "pending"})
          </li>
        ))}
      </ul>
    </section>
  );
}

/** What can be changed: it is folded, so that the conversation has the room. */
function Changes({ session, view, detail, telling }: SideProps & { view: View<"DetailView"> }) {
  const host = useHost();
  const offered = useSignal<View<"OfferedView"> | null>(null);
  const isOpen = useSignal(false);
  // Each change of the session may change what it is offered, and the values of its options
  useEffect(() => {
    if (!isOpen.value) return;
    host.call("offered", { session }).then(
      (found) => (offered.value = found),
      (error: unknown) => {
        if (!(error instanceof Refused)) throw error; // the actions say what stands in the way
      },
    );
  }, [host, isOpen.value, view]);
  const doing = async (done: string, action: () => Promise<unknown>) => {
    const isDone = await act(telling, done, action);
    if (isDone) detail.refresh();
    return isDone;
  };
  const about = { session };
  const fork = () =>
    doing("Forked", async () => go(address((await host.call("fork", { ...about, body: {} })).session)));
  return (
    <>
      <section>
        <h2>Do</h2>
        <div class="actions">
          <ActionButton act={fork}>Fork</ActionButton>
          {!view.ended && (
            <>
          <ActionButton act={() => doing("Compacts", () => host.call("compact", { ...about, body: {} }))}>Compact</ActionButton>
          <ActionButton act={() => doing("Suspended", () => host.call("suspend", about))}>Suspend</ActionButton>
          <ActionButton act={() => doing("Resumed", () => host.call("resume", about))}>Resume</ActionButton>
            </>
          )}
        </div>
      </section>
      <details
        open={isOpen.value}
        onToggle={(event) => (isOpen.value = event.currentTarget.open)}
      >
        <summary>Model, tools, plugins</summary>
        {isOpen.value && (
          <>
            <Models session={session} offered={offered.value} doing={doing} />
            <Chooser
              label="Tool to add"
              names={(offered.value?.tools ?? []).filter((name) => !view.tools.includes(name))}
              verb="Add"
              choose={(name) => doing("Added", () => host.call("change_tools", { ...about, body: { do: "attach", tools: [name] } }))}
            />
            <Chooser
              label="Tool to remove"
              names={view.tools}
              verb="Remove"
              choose={(name) => doing("Removed", () => host.call("change_tools", { ...about, body: { do: "detach", tools: [name] } }))}
            />
            <Chooser
              label="Plugin to add"
              names={(offered.value?.plugins ?? []).filter((name) => !view.plugins.includes(name))}
              verb="Add it"
              choose={(plugin) => doing(SOON, () => host.call("change_plugins", { ...about, body: { do: "attach", plugin } }))}
            />
            <Chooser
              label="Plugin to remove"
              names={view.plugins}
              verb="Remove it"
              choose={(plugin) => doing(SOON, () => host.call("change_plugins", { ...about, body: { do: "detach", plugin } }))}
            />
            <Plugins session={session} plugins={view.plugins} options={offered.value?.options ?? []} doing={doing} />
          </>
        )}
      </details>
    </>
  );
}

function Chooser(props: {
  label: string;
  names: readonly string[];
  verb: string;
  choose: (name: string) => Promise<unknown>;
}) {
  const { label, names, verb, choose } = props;
  const chosen = useSignal("");
  if (names.length === 0) return null;
  const name = names.includes(chosen.value) ? chosen.value : (names[0] ?? "");
  return (
    <p class="chooser">
      <label>
        {label}{" "}
        <select value={name} onChange={(event) => (chosen.value = event.currentTarget.value)}>
          {names.map((each) => (
            <option value={each}>{each}</option>
          ))}
        </select>
      </label>{" "}
      <ActionButton act={() => choose(name)}>{verb}</ActionButton>
    </p>
  );
}

/** Does something and tells of it; returns whether it went well. */
type Doing = (done: string, action: () => Promise<unknown>) => Promise<boolean>;

const SOON = "Changed, as soon as no turn is open";

interface ModelsProps {
  readonly session: string;
  readonly offered: View<"OfferedView"> | null;
  readonly doing: Doing;
}

function Models({ session, offered, doing }: ModelsProps) {
  const host = useHost();
  /** What a person has written; null: the options are those that the model has. */
  const draft = useSignal<string | null>(null);
  const names = offered?.models ?? [];
  const has = (offered?.options ?? []).filter(({ plugin }) => !plugin);
  const text = draft.value ?? (has.length ? indented(write(Object.fromEntries(has.map(({ name, data }) => [name, data])))) : "");
  const choose = (model: string) =>
    doing("Switched, from the next turn on", async () => {
      const given = text.trim();
      if (given) JSON.parse(given); // what is no JSON is told, and not sent
      await host.call("switch_model", { session, body: { model, ...(given && { options: { json: given } }) } });
      draft.value = null;
    });
  if (names.length === 0) return null;
  return (
    <>
      <Chooser label="Model" names={names} verb="Switch" choose={choose} />
      <label>
        Options of the model, as JSON; empty: none
        <textarea
          class="code"
          rows={Math.min(8, text.split("\n").length)}
          spellcheck={false}
          value={text}
          onInput={(event) => (draft.value = event.currentTarget.value)}
        />
      </label>
    </>
  );
}

interface PluginsProps {
  readonly session: string;
  readonly plugins: readonly string[];
  readonly options: View<"OfferedView">["options"];
  readonly doing: Doing;
}

function Plugins({ session, plugins, options, doing }: PluginsProps) {
  const host = useHost();
  if (plugins.length === 0) return <p>It has no plugins.</p>;
  return (
    <section>
      <h3>Plugins, in the order in which they are asked</h3>
      <ol>
        {plugins.map((plugin) => {
          const own = options.filter((option) => option.plugin === plugin);
          return (
            <li key={plugin}>
              <Plain text={plugin} />
              {own.length > 0 && (
                <OptionForm
                  plugin={plugin}
                  options={own}
                  save={(changed) =>
                    doing(SOON, () =>
                      host.call("change_plugins", { session, body: { do: "update", plugin, options: changed } }),
                    )
                  }
                />
              )}
            </li>
          );
        })}
      </ol>
      {options.every(({ plugin }) => !plugin) && <p class="hint">The host lets nobody change their options.</p>}
    </section>
  );
}
