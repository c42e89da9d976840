/** Light or dark: what the system prefers, unless the person has chosen. */
import { signal } from "@preact/signals";

const NAME = "agentrail.theme";
export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const kept = localStorage.getItem(NAME);
export const theme = signal<Theme>(THEMES.find((name) => name === kept) ?? "system");

export function applyTheme(): void {
  document.documentElement.dataset["theme"] = theme.value;
}

export function chooseTheme(name: Theme): void {
  theme.value = name;
  localStorage.setItem(NAME, name);
  applyTheme();
}
