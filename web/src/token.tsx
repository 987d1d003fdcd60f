/** Asks for a token when the scheduler does not answer without one. */

import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";

import { adoptToken, refusal, token } from "./api/client";
import { Icon } from "./ui/icon";
import { Command } from "./ui/command";

/** Whether the reader has put the question aside. */
export const asideToken = signal(false);

export function TokenDialog() {
  const dialog = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState("");
  const [keep, setKeep] = useState(false);
  const refused = refusal.value;
  const aside = asideToken.value;

  useEffect(() => {
    const element = dialog.current;
    if (!element) return;
    if (refused && !aside && !element.open) element.showModal();
    if (!refused) {
      asideToken.value = false;
      if (element.open) element.close();
    }
  }, [refused, aside]);

  const submit = (event: Event): void => {
    event.preventDefault();
    adoptToken(text, keep);
    setText("");
  };

  const known = token.value !== "";
  return (
    <dialog
      ref={dialog}
      aria-labelledby="token-title"
      onClose={() => (asideToken.value = refused !== null)}
    >
      <div class="dialog-head">
        <h2 id="token-title">Sign in with a token</h2>
        <button
          type="button"
          class="button plain icon"
          aria-label="Close"
          onClick={() => dialog.current?.close()}
        >
          <Icon name="close" />
        </button>
      </div>
      <form class="dialog-body" onSubmit={submit}>
        <p class="quiet">
          The API server decides who may look at this scheduler.{" "}
          {known ? "The token that was given is not enough:" : "Without a token it says:"}
        </p>
        {refused && (
          <p class="small" role="alert">
            {refused.message}
          </p>
        )}
        <label class="stack tight">
          <span>Token of an account with the role equipoise-viewer</span>
          <input
            class="field mono"
            type="password"
            autocomplete="off"
            autofocus
            spellcheck={false}
            required
            pattern="\s*[!-~]+\s*"
            title="A token has no spaces, and no characters but those of ASCII"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
        <label class="row">
          <input
            type="checkbox"
            checked={keep}
            onChange={(event) => setKeep(event.currentTarget.checked)}
          />
          <span>Keep it until this tab is closed</span>
        </label>
        <div class="stack tight">
          <span class="small quiet">For example</span>
          <Command text="kubectl -n equipoise-system create token equipoise-viewer" />
        </div>
        <button type="submit" class="button primary">
          Sign in
        </button>
      </form>
    </dialog>
  );
}
