/** Numbers as people read them. */
const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const money = new Intl.NumberFormat("en", { style: "currency", currency: "USD", maximumFractionDigits: 4 });

export function count(amount: number): string {
  return whole.format(amount);
}

/** A large number in few characters: `12.3K`. */
export function shortCount(amount: number): string {
  return short.format(amount);
}

/** A size in bytes: `12.3 kB`. */
export function bytes(amount: number): string {
  return amount < 1_000 ? `${amount} B` : `${short.format(amount).replace(/[KMB]$/, (unit) => ` ${unit === "K" ? "k" : unit === "B" ? "G" : unit}B`)}`;
}

/** Responses, and what they have cost as far as their prices are known. */
export interface Spending {
  readonly cost_usd: number;
  readonly unpriced: number;
  readonly responses: number;
  readonly input_tokens: number;
  readonly output_tokens: number;
  /** Turns that ended, by how. */
  readonly turns: Readonly<Record<string, number>>;
}

/** Whether something was done and no response told what it used: then 0 tokens, or $0.00, are not what was measured. */
export function isUntold({ responses, turns, input_tokens: read, output_tokens: written, cost_usd: cost }: Spending): boolean {
  const isBusy = responses > 0 || Object.keys(turns).length > 0;
  return isBusy && read + written + cost === 0;
}

/** What several stretches of time have cost together; a price that is not known is told, and not taken for nothing. */
export function spent(parts: readonly Spending[]): string {
  const sum = (of: (part: Spending) => number) => parts.reduce((total, part) => total + of(part), 0);
  const unpriced = sum((part) => part.unpriced);
  const known = sum((part) => part.cost_usd);
  const told = parts.filter((part) => !isUntold(part));
  if (told.length === 0 && parts.length > 0) return dollars(null);
  if (unpriced === 0) return dollars(known);
  if (unpriced >= sum((part) => part.responses)) return dollars(null);
  return `${dollars(known)} and ${count(unpriced)} ${unpriced === 1 ? "response" : "responses"} of unknown price`;
}

/** What stands for a figure that is not known. */
export const UNKNOWN = "unknown";

/** An amount in US dollars; null: a price is not known. */
export function dollars(amount: number | null): string {
  return amount === null ? UNKNOWN : money.format(amount);
}
