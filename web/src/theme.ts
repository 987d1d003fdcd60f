/** Light, dark, or as the system has it; `public/theme.js` reads the choice before it is drawn. */

import { computed, effect, signal } from "@preact/signals";

export type Theme = "light" | "dark" | "system";

const KEY = "equipoise-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

function stored(): Theme {
  const chosen = document.documentElement.dataset.theme;
  return chosen === "light" || chosen === "dark" ? chosen : "system";
}

export const theme = signal<Theme>(stored());
const systemDark = signal(system.matches);
system.addEventListener("change", () => {
  systemDark.value = system.matches;
});

/** Whether the page is dark now; charts are drawn again when it changes. */
export const dark = computed(() =>
  theme.value === "system" ? systemDark.value : theme.value === "dark",
);

effect(() => {
  const chosen = theme.value;
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  try {
    if (chosen === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, chosen);
  } catch {
    // It holds until the page is closed.
  }
});

/** The next of the three. */
export function nextTheme(): void {
  const order: Theme[] = ["system", "light", "dark"];
  theme.value = order[(order.indexOf(theme.value) + 1) % order.length] ?? "system";
}
