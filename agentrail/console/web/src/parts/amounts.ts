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

/** An amount in US dollars; null: a price is not known. */
export function dollars(amount: number | null): string {
  return amount === null ? "unknown" : money.format(amount);
}
