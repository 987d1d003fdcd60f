// Before anything is drawn: the theme that was chosen, so that no page flashes in the other one.
try {
  const chosen = localStorage.getItem("equipoise-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage may be forbidden; then the system decides.
}
