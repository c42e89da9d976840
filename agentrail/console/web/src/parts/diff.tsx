/** What a change of a text takes away and adds, line by line. */
import { Folded } from "./folded";

const MOST_LINES = 2_000;

/** Returns the lines of both texts, each with `-`, `+` or a blank in front. */
export function changedLines(before: string, after: string): string[] {
  const old = before.split("\n");
  const fresh = after.split("\n");
  if (old.length * fresh.length > MOST_LINES ** 2) return [...old.map((line) => `- ${line}`), ...fresh.map((line) => `+ ${line}`)];
  // Length of the longest common part of what follows each pair of lines
  const width = fresh.length + 1;
  const common = new Uint32Array((old.length + 1) * width);
  const at = (row: number, column: number) => common[row * width + column] ?? 0;
  for (let row = old.length - 1; row >= 0; row -= 1) {
    for (let column = fresh.length - 1; column >= 0; column -= 1) {
      const isSame = old[row] === fresh[column];
      common[row * width + column] = isSame ? at(row + 1, column + 1) + 1 : Math.max(at(row + 1, column), at(row, column + 1));
    }
  }
  const lines: string[] = [];
  let row = 0;
  let column = 0;
  while (row < old.length || column < fresh.length) {
    if (row < old.length && column < fresh.length && old[row] === fresh[column]) {
      lines.push(`  ${old[row]}`);
      row += 1;
      column += 1;
    } else if (column >= fresh.length || (row < old.length && at(row + 1, column) >= at(row, column + 1))) {
      lines.push(`- ${old[row]}`);
      row += 1;
    } else {
      lines.push(`+ ${fresh[column]}`);
      column += 1;
    }
  }
  return lines;
}

export function Diff({ before, after }: { before: string; after: string }) {
  return <Folded text={changedLines(before, after).join("\n")} what="change" isCode />;
}
