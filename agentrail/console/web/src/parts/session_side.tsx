/** Beside the conversation: what the session does and has used, its plan, and its model, tools and plugins, which can be changed. */
import { useSignal, type Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { indented, write } from "../host/exact_json";
import { useHost } from "../host/host_context";
import type { View } from "../host/interface";
import { Refused } from "../host/socket";
import { activity } from "../store/activity";
import type { Detail } from "../store/detail";
import type { LiveConversation } from "../store/live_conversation";
import { act, ActionButton, type Telling } from "./action";
import { count, dollars } from "./amounts";
import { ContextBar } from "./context_bar";
import { History } from "./history";
import { Icon, type IconName } from "./icon";
import { Menu } from "./menu";
import { OptionForm } from "./option_form";
import { Plain } from "./plain";

interface SideProps {
  readonly session: string;
  readonly live: LiveConversation;
  readonly detail: Detail;
  readonly telling: Signal<Telling>;
  readonly close: () => void;
}

export function SessionSide(props: SideProps) {
  const { live, detail, close } = props;
  void live.version.value;
  const view = detail.view.value;
  return (
    <aside class="side" aria-label="About the session">
      <div class="line">
        <h2 class="grow">Session</h2>
        <button type="button" class="bare square slim" aria-label="Hide this panel" aria-expanded="true" onClick={close}>
          <Icon name="panel" />
        </button>
      </div>
      {view && <StatusFacts view={view} live={live} />}
      <Plan todos={live.conversation.status.todos} />
      {view?.context && <ContextBar context={view.context} />}
      {view && <Setup {...props} view={view} />}
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
    <section class="first">
      <dl class="facts">
        <dt>Agent</dt>
        <dd>
          <Plain text={view.agent} />
        </dd>
        <dt>Person</dt>
        <dd>
          <Plain text={view.owner} />
        </dd>
        <dt>Doing</dt>
        <dd>{view.ended ? "ended" : status ? activity({ phase: shown.phase, waits: status.waits }) : "does not run now"}</dd>
        <dt>Model</dt>
        <dd>
          <Plain text={status?.model ?? shown.model} />
        </dd>
        <dt>Turn</dt>
        <dd>
          {status?.turn ?? shown.turn}, step {status?.round ?? shown.round}
        </dd>
        {status && status.quarantined.length > 0 && (
          <>
            <dt>Set aside</dt>
            <dd>{status.quarantined.length} calls that were cancelled and still run</dd>
          </>
        )}
        {usage && (
          <>
            <dt>Tokens</dt>
            <dd>
              {count(usage.input_tokens)} in{" "}
              {usage.input_tokens > 0 && <span class="soft">({Math.round((100 * usage.cached_tokens) / usage.input_tokens)} % cached)</span>}
              <br />
              {count(usage.output_tokens)} out
            </dd>
            <dt>Cost</dt>
            <dd>{dollars(usage.cost_usd)}</dd>
          </>
        )}
        {view.labels.length > 0 && (
          <>
            <dt>Labels</dt>
            <dd>
              <Plain text={view.labels.join(", ")} />
            </dd>
          </>
        )}
      </dl>
      {view.problem && (
        <p role="alert" class="problem">
          <Plain text={view.problem} />
        </p>
      )}
    </section>
  );
}

/** How a thing to do stands: its icon and its colour. */
const STEPS: Readonly<Record<string, readonly [IconName, string]>> = {
  completed: ["check", "is-good"],
  in_progress: ["clock", "is-work"],
};

function Plan({ todos }: { todos: readonly View<"Todo">[] }) {
  if (todos.length === 0) return null;
  return (
    <section>
      <h2>Plan</h2>
      <ul class="plan">
        {todos.map((todo) => {
          const [icon, role] = STEPS[todo.status ?? ""] ?? ["clock", "soft"];
          return (
            <li class={todo.status === "in_progress" ? "" : "soft"}>
              <span class={role}>
                <Icon name={icon} />
              </span>
              <span>
                <Plain text={todo.text} />
                <span class="only-read"> ({(todo.status ?? "pending").replaceAll("_", " ")})</span>
              </span>
            </li>
          );
        })}
      </ul>
    </section>
  );
}

/** Does something and tells of it; returns whether it went well. */
type Doing = (done: string, action: () => Promise<unknown>) => Promise<boolean>;

const SOON = "Changed, as soon as no turn is open";

/** What can be changed: it is folded, so that the conversation has the room. */
function Setup({ session, view, detail, telling }: SideProps & { view: View<"DetailView"> }) {
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
  const doing: Doing = async (done, action) => {
    const isDone = await act(telling, done, action);
    if (isDone) detail.refresh();
    return isDone;
  };
  const opened = (event: Event & { currentTarget: HTMLDetailsElement }) => {
    if (event.currentTarget.open) isOpen.value = true;
  };
  const about = { session };
  const { tools, plugins } = view;
  return (
    <>
      <details onToggle={opened}>
        <summary>Model</summary>
        <Models session={session} current={view.status?.model ?? ""} offered={offered.value} doing={doing} />
      </details>
      <details onToggle={opened}>
        <summary>Tools · {tools.length}</summary>
        <Names
          what="tool"
          names={tools}
          offered={offered.value?.tools ?? []}
          add={(name) => doing("Added", () => host.call("change_tools", { ...about, body: { do: "attach", tools: [name] } }))}
          remove={(name) => doing("Removed", () => host.call("change_tools", { ...about, body: { do: "detach", tools: [name] } }))}
        />
      </details>
      <details onToggle={opened}>
        <summary>Plugins · {plugins.length}, in their order</summary>
        <Names
          what="plugin"
          names={plugins}
          offered={offered.value?.plugins ?? []}
          add={(plugin) => doing(SOON, () => host.call("change_plugins", { ...about, body: { do: "attach", plugin } }))}
          remove={(plugin) => doing(SOON, () => host.call("change_plugins", { ...about, body: { do: "detach", plugin } }))}
          below={(plugin) => <Options session={session} plugin={plugin} options={offered.value?.options ?? []} doing={doing} />}
        />
        {offered.value?.options.every(({ plugin }) => !plugin) && <p class="hint">The host lets nobody change their options.</p>}
      </details>
    </>
  );
}

interface NamesProps {
  readonly what: string;
  /** Those that the session has, and those that there are. */
  readonly names: readonly string[];
  readonly offered: readonly string[];
  readonly add: (name: string) => Promise<unknown>;
  readonly remove: (name: string) => Promise<unknown>;
  /** What stands below a name. */
  readonly below?: (name: string) => ComponentChildren;
}

function Names({ what, names, offered, add, remove, below }: NamesProps) {
  const others = offered.filter((name) => !names.includes(name));
  return (
    <>
      <ol class="names">
        {names.map((name) => (
          <li key={name}>
            <div class="line">
              <code class="grow">
                <Plain text={name} />
              </code>
              <ActionButton kind="bare square slim" label={`Remove ${name}`} act={() => remove(name)}>
                <Icon name="cross" />
              </ActionButton>
            </div>
            {below?.(name)}
          </li>
        ))}
      </ol>
      {others.length > 0 && (
        <Menu label={`Add a ${what}`} kind="slim" items={others.map((name) => ({ label: name, act: () => void add(name) }))} />
      )}
    </>
  );
}

interface ModelsProps {
  readonly session: string;
  readonly current: string;
  readonly offered: View<"OfferedView"> | null;
  readonly doing: Doing;
}

function Models({ session, current, offered, doing }: ModelsProps) {
  const host = useHost();
  const chosen = useSignal<string | null>(null);
  /** What a person has written; null: the options are those that the model has. */
  const draft = useSignal<string | null>(null);
  const names = offered?.models ?? [];
  const has = (offered?.options ?? []).filter(({ plugin }) => !plugin);
  const text = draft.value ?? (has.length ? indented(write(Object.fromEntries(has.map(({ name, data }) => [name, data])))) : "");
  const model = chosen.value ?? (names.includes(current) ? current : (names[0] ?? ""));
  const change = () =>
    doing("Switched, from the next turn on", async () => {
      const given = text.trim();
      if (given) JSON.parse(given); // what is no JSON is told, and not sent
      await host.call("switch_model", { session, body: { model, ...(given && { options: { json: given } }) } });
      draft.value = null;
    });
  if (names.length === 0) return <p class="hint">The host offers no other model.</p>;
  return (
    <div class="stack">
      <Menu
        label={model}
        kind="slim"
        items={names.map((name) => ({ label: name, isChosen: name === model, act: () => (chosen.value = name) }))}
      />
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
      <ActionButton kind="slim" act={change}>
        Switch
      </ActionButton>
    </div>
  );
}

interface OptionsProps {
  readonly session: string;
  readonly plugin: string;
  readonly options: View<"OfferedView">["options"];
  readonly doing: Doing;
}

function Options({ session, plugin, options, doing }: OptionsProps) {
  const host = useHost();
  const own = options.filter((option) => option.plugin === plugin);
  if (own.length === 0) return null;
  return (
    <OptionForm
      plugin={plugin}
      options={own}
      save={(changed) =>
        doing(SOON, () => host.call("change_plugins", { session, body: { do: "update", plugin, options: changed } }))
      }
    />
  );
}
