/** What the context of a session has in it, as a bar by layer, with the share and the tokens of each. */
import type { View } from "../host/interface";
import { count, shortCount } from "./amounts";
import { capitalised } from "../store/capitalised";

/** A layer as the bar shows it. */
export interface Stretch {
  readonly name: string;
  readonly tokens: number;
  /** Its share of the window, from 0 to 1. */
  readonly share: number;
}

/** Colours of the layers. */
export const LAYER_KEYS: Readonly<Record<string, string>> = { user: "k3", system: "k3", skills: "k5", memory: "k4", tools: "k2", history: "k1", dynamic: "k6" };

/** Returns the layers of a context by their shares of what the model can read. */
export function stretchesOf({ window, tokens, layers }: View<"ContextView">): Stretch[] {
  const whole = Math.max(window, tokens, 1);
  return layers.map((layer) => ({ name: layer.name, tokens: layer.tokens, share: layer.tokens / whole }));
}

function percent(share: number): string {
  return share > 0 && share < 0.01 ? "< 1 %" : `${Math.round(share * 100)} %`;
}

export function ContextBar({ context }: { context: View<"ContextView"> }) {
  const stretches = stretchesOf(context);
  const { window, is_assumed: isAssumed, tokens, compact_at: compactAt } = context;
  return (
    <section aria-label="Context">
      <div class="line">
        <h2 class="grow">Context</h2>
        <span class="tiny soft" title={`About ${count(tokens)} of ${count(window)} tokens`}>
          {shortCount(tokens)} of {shortCount(window)}
        </span>
      </div>
      <div class="bar" aria-hidden="true">
        {stretches.map(({ name, share }) => (
          <span key={name} class={LAYER_KEYS[name] ?? "k5"} style={{ width: `${share * 100}%` }} />
        ))}
      </div>
      <ul class="legend">
        {stretches.map(({ name, share, tokens: own }) => (
          <li key={name} title={`${count(own)} tokens`}>
            <span class={`key ${LAYER_KEYS[name] ?? "k5"}`} aria-hidden="true" />
            {capitalised(name)} <b>{percent(share)}</b>
          </li>
        ))}
      </ul>
      <p class="tiny soft">
        Compacted above {count(compactAt)} tokens{isAssumed && "; the window is assumed, because the model is not known"}.
      </p>
    </section>
  );
}
