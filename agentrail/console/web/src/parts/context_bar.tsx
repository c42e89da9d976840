/** What the context of a session has in it, as a bar by layer, with the tokens and the share of each. */
import type { View } from "../host/interface";
import { count } from "./amounts";

/** A stretch of the bar: a layer, or what is free. */
export interface Stretch {
  readonly name: string;
  readonly tokens: number;
  /** Its share of the window, from 0 to 1; of what does not fit, nothing is left for the others. */
  readonly share: number;
}

export const FREE = "free";

/** Returns the layers of a context and what is free, by their shares of what the model can read. */
export function stretchesOf({ window, tokens, layers }: View<"ContextView">): Stretch[] {
  const free = { name: FREE, tokens: Math.max(0, window - tokens) };
  const whole = Math.max(window, tokens, 1);
  return [...layers, free].map((layer) => ({ name: layer.name, tokens: layer.tokens, share: layer.tokens / whole }));
}

function percent(share: number): string {
  return share > 0 && share < 0.01 ? "< 1 %" : `${Math.round(share * 100)} %`;
}

export function ContextBar({ context }: { context: View<"ContextView"> }) {
  const stretches = stretchesOf(context);
  const { window, is_assumed: isAssumed, tokens, compact_at: compactAt } = context;
  return (
    <section aria-label="Context window">
      <h2>Context window</h2>
      <div class="context-bar" aria-hidden="true">
        {stretches.map(({ name, share }) => (
          <span key={name} data-layer={name} style={{ width: `${share * 100}%` }} />
        ))}
      </div>
      <table class="context-layers">
        <tbody>
          {stretches.map((stretch) => (
            <tr key={stretch.name}>
              <th scope="row">
                <span class="context-key" data-layer={stretch.name} aria-hidden="true" /> {stretch.name}
              </th>
              <td class="amount">{count(stretch.tokens)}</td>
              <td class="amount">{percent(stretch.share)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="hint">
        About {count(tokens)} of {count(window)} tokens{isAssumed && " (assumed: the model is not known)"}; compacted above{" "}
        {count(compactAt)}.
      </p>
    </section>
  );
}
