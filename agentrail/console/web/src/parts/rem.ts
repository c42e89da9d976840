/** How many pixels a rem has: more where a person has chosen larger letters. */
export function pixelsPerRem(): number {
  return Number.parseFloat(getComputedStyle(document.documentElement).fontSize);
}
