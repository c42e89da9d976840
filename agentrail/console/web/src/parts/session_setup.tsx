/** What can be changed of a session: its model, its tools, its plugins and their options. */
import { useSignal, type Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { indented, write } from "../host/exact_json";
import { useHost } from "../host/host_context";
import type { View } from "../host/interface";
import { Refused } from "../host/socket";
import type { Detail } from "../store/detail";
import { act, ActionButton, type Telling } from "./action";
import { Icon } from "./icon";
import { Menu } from "./menu";
import { OptionForm } from "./option_form";
import { Plain } from "./plain";

export interface SessionSetupProps {
  readonly session: string;
  readonly what: "model" | "tools" | "plugins";
  readonly view: View<"DetailView">;
  readonly detail: Detail;
  readonly telling: Signal<Telling>;
}

/** Does something and tells of it; returns whether it went well. */
type Doing = (done: string, action: () => Promise<unknown>) => Promise<boolean>;

const SOON = "Changed, as soon as no turn is open";

export function SessionSetup({ session, what, view, detail, telling }: SessionSetupProps) {
  const host = useHost();
  const offered = useSignal<View<"OfferedView"> | null>(null);
  // Each change of the session may change what it is offered, and the values of its options
  useEffect(() => {
    host.call("offered", { session }).then(
      (found) => (offered.value = found),
      (error: unknown) => {
        if (!(error instanceof Refused)) throw error; // the actions say what stands in the way
      },
    );
  }, [host, view]);
  const doing: Doing = async (done, action) => {
    const isDone = await act(telling, done, action);
    if (isDone) detail.refresh();
    return isDone;
  };
  const about = { session };
  const { tools, plugins } = view;
  if (what === "model") return <Models session={session} current={view.status?.model ?? ""} offered={offered.value} doing={doing} />;
  if (what === "tools") {
    return (
      <Names
        what="tool"
        names={tools}
        offered={offered.value?.tools ?? []}
        add={(name) => doing("Added", () => host.call("change_tools", { ...about, body: { do: "attach", tools: [name] } }))}
        remove={(name) => doing("Removed", () => host.call("change_tools", { ...about, body: { do: "detach", tools: [name] } }))}
      />
    );
  }
  return (
    <>
      <Names
        what="plugin"
        names={plugins}
        offered={offered.value?.plugins ?? []}
        add={(plugin) => doing(SOON, () => host.call("change_plugins", { ...about, body: { do: "attach", plugin } }))}
        remove={(plugin) => doing(SOON, () => host.call("change_plugins", { ...about, body: { do: "detach", plugin } }))}
        below={(plugin) => <Options session={session} plugin={plugin} options={offered.value?.options ?? []} doing={doing} />}
      />
      {offered.value?.options.every(({ plugin }) => !plugin) && <p class="hint">The host lets nobody change their options.</p>}
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
