/** Text to be used elsewhere: shown as it is, copied by a button. */

import { useState } from "preact/hooks";

import { Icon } from "./icon";

const SAID_MS = 1600;

/** Put text on the clipboard; browsers have the newer way only on HTTPS and on this machine. */
async function copied(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

export function CopyButton({ text, label = "Copy" }: { text: string; label?: string }) {
  const [done, setDone] = useState(false);
  const copy = async (): Promise<void> => {
    if (!(await copied(text))) return;
    setDone(true);
    setTimeout(() => setDone(false), SAID_MS);
  };
  return (
    <button
      type="button"
      class="button plain small"
      aria-label={done ? "Copied" : label}
      title={label}
      onClick={() => void copy()}
    >
      <Icon name={done ? "check" : "copy"} small />
    </button>
  );
}

export function Command({ text }: { text: string }) {
  return (
    <div class="command">
      <pre>
        <code>{text}</code>
      </pre>
      <CopyButton text={text} label="Copy the command" />
    </div>
  );
}
