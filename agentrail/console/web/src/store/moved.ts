/** How single cases moved from the baseline to an experiment: a few runs of a case prove nothing, so no verdict. */
import type { View } from "../host/interface";

export type Moved = "fell" | "rose" | "same" | "failed" | "alone";

/** A case with its means by one scorer. */
export interface MovedCase {
  readonly row: View<"CaseView">;
  readonly before: number | null;
  readonly after: number | null;
  /** The difference; null: one of the two has no score. */
  readonly difference: number | null;
  readonly moved: Moved;
}

/** Returns the cases by what *scorer* says, the largest moves first; *repeats* is how often each was run. */
export function movedCases(cases: readonly View<"CaseView">[], scorer: string, repeats: number): readonly MovedCase[] {
  const found = cases.map((row) => {
    const score = row.scores.find((one) => one.scorer === scorer);
    const [before, after] = [score?.before ?? null, score?.after ?? null];
    const difference = before === null || after === null ? null : after - before;
    return { row, before, after, difference, moved: movedBy(row, difference, repeats) };
  });
  return found.sort((one, other) => Math.abs(other.difference ?? 0) - Math.abs(one.difference ?? 0));
}

/** One run of a case makes so much of its mean: more than that is a move. */
function movedBy(row: View<"CaseView">, difference: number | null, repeats: number): Moved {
  if (difference === null) return row.failed > 0 ? "failed" : "alone";
  const least = repeats > 1 ? 1 / repeats + 1e-9 : 0.5;
  if (Math.abs(difference) < least) return row.failed > 0 ? "failed" : "same";
  return difference < 0 ? "fell" : "rose";
}
