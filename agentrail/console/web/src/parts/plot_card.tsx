/** A plot with its title, its total, and a legend with the sum of each of its lines. */
import type { ComponentChildren } from "preact";
import { Plain } from "./plain";
import { Plot, type Line, type PlotProps } from "./plot";

export interface CardLine extends Line {
  /** Its sum, as it is told. */
  readonly total: string;
}

interface PlotCardProps extends Omit<PlotProps, "label" | "lines"> {
  readonly title: string;
  readonly total: string;
  /** What is told beside the title. */
  readonly aside?: ComponentChildren;
  readonly lines: readonly CardLine[];
}

export function PlotCard(props: PlotCardProps) {
  const { title, total, aside, lines } = props;
  return (
    <section class="card plot-card" aria-label={title}>
      <div class="line">
        <h2 class="grow">{title}</h2>
        {aside && <span class="tiny soft">{aside}</span>}
      </div>
      <p class="plot-total">{total}</p>
      <Plot {...props} label={`${title} over time`} />
      <ul class="legend">
        {lines.map(({ name, key, total: sum }) => (
          <li key={name}>
            <span class={`key ${key}`} aria-hidden="true" />
            <Plain text={name} /> <b>{sum}</b>
          </li>
        ))}
      </ul>
    </section>
  );
}
