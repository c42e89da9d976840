/** Returns words as a sentence or a title begins: with a capital letter. */
export function capitalised(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}
