/** Keys: `g` and a letter lead to a view, `/` filters, `?` lists them all. */

import { useEffect, useRef } from "preact/hooks";
import { signal } from "@preact/signals";

import { go, link } from "./router";
import { VIEWS } from "./routes";
import { nextTheme } from "./theme";
import { Icon } from "./ui/icon";

const SEQUENCE_MS = 1200;
const open = signal(false);

export function showKeys(): void {
  open.value = true;
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement && target.matches("input, textarea, select, [contenteditable]")
  );
}

/** Listen for keys; returns what ends that. */
export function installKeys(): () => void {
  let since = 0;
  const onKey = (event: KeyboardEvent): void => {
    if (event.key === "Escape" && isTyping(event.target)) (event.target as HTMLElement).blur();
    if (isTyping(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.querySelector("dialog[open]")) return;
    const after = event.timeStamp - since < SEQUENCE_MS;
    since = 0;
    if (after) {
      const view = VIEWS.find((each) => each.key === event.key);
      if (view?.key) go(link(view.path));
    } else if (event.key === "g") since = event.timeStamp;
    else if (event.key === "t") nextTheme();
    else if (event.key === "?") showKeys();
    else if (event.key === "/") {
      const field = document.querySelector<HTMLInputElement>("[data-search]");
      if (field) {
        event.preventDefault();
        field.focus();
        field.select();
      }
    }
  };
  addEventListener("keydown", onKey);
  return () => removeEventListener("keydown", onKey);
}

export function KeysHelp() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (open.value) dialog.current?.showModal();
  }, [open.value]);
  return (
    <dialog ref={dialog} aria-labelledby="keys-title" onClose={() => (open.value = false)}>
      <div class="dialog-head">
        <h2 id="keys-title">Keys</h2>
        <button
          type="button"
          class="button plain icon"
          aria-label="Close"
          onClick={() => dialog.current?.close()}
        >
          <Icon name="close" />
        </button>
      </div>
      <div class="dialog-body">
        <dl class="keys">
          {VIEWS.filter((view) => view.key).map((view) => (
            <>
              <dt key={view.path}>
                <kbd>g</kbd> <kbd>{view.key}</kbd>
              </dt>
              <dd>{view.title}</dd>
            </>
          ))}
          <dt>
            <kbd>/</kbd>
          </dt>
          <dd>Filter what is shown</dd>
          <dt>
            <kbd>↑</kbd> <kbd>↓</kbd> <kbd>Enter</kbd>
          </dt>
          <dd>Move in a table, open a row</dd>
          <dt>
            <kbd>t</kbd>
          </dt>
          <dd>Light, dark or system theme</dd>
          <dt>
            <kbd>?</kbd>
          </dt>
          <dd>These keys</dd>
        </dl>
      </div>
    </dialog>
  );
}
