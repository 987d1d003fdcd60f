/** The frame around every view: navigation, who answers, banners, keys, the token. */

import { signal } from "@preact/signals";
import type { FunctionComponent } from "preact";
import { useEffect, useErrorBoundary, useRef, useState } from "preact/hooks";

import { answeredAt, ApiError, refusal, replica, silentSince } from "./api/client";
import { installKeys, KeysHelp, showKeys } from "./keys";
import { link, place } from "./router";
import { VIEWS, type View } from "./routes";
import { nextTheme, theme } from "./theme";
import { asideToken, TokenDialog } from "./token";
import { moment } from "./ui/format";
import { Icon } from "./ui/icon";
import { Failed, Loading, State } from "./ui/states";

const menuOpen = signal(false);

function current(): View | undefined {
  const [first = "overview"] = place.value.path;
  return VIEWS.find((view) => view.path === first);
}

export function Shell() {
  const view = current();
  const main = useRef<HTMLElement>(null);
  const menu = useRef<HTMLButtonElement>(null);
  const address = place.value.path.join("/");
  const before = useRef(address);

  useEffect(installKeys, []);
  useEffect(() => {
    if (!menuOpen.value) return;
    const close = (event: KeyboardEvent): void => {
      if (event.key !== "Escape") return;
      menuOpen.value = false;
      menu.current?.focus();
    };
    addEventListener("keydown", close);
    return () => removeEventListener("keydown", close);
  }, [menuOpen.value]);
  useEffect(() => {
    const named = place.value.path.slice(1).join("/");
    document.title = [named, view?.title, "Equipoise"].filter(Boolean).join(" · ");
    menuOpen.value = false;
    if (before.current !== address) {
      main.current?.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
    before.current = address;
  }, [address, view]);

  return (
    <div class="shell">
      <a class="skip" href="#content" onClick={(event) => skip(event, main.current)}>
        Skip to content
      </a>
      <header class="topbar">
        <Brand />
        <span class="grow" />
        <button
          type="button"
          class="button plain icon"
          ref={menu}
          aria-label="Menu"
          aria-expanded={menuOpen.value}
          onClick={() => (menuOpen.value = !menuOpen.value)}
        >
          <Icon name="menu" />
        </button>
      </header>
      <button
        type="button"
        class={menuOpen.value ? "veil open" : "veil"}
        aria-label="Close the menu"
        tabIndex={-1}
        onClick={() => (menuOpen.value = false)}
      />
      <Sidebar active={view?.path ?? ""} />
      <div>
        <Banners />
        <main class="main" id="content" tabIndex={-1} ref={main}>
          {view ? (
            <Body key={view.path} view={view} />
          ) : (
            <State icon="empty" title="There is no such view">
              <p>
                <a href={link("overview")}>Go to the overview</a>
              </p>
            </State>
          )}
        </main>
      </div>
      <KeysHelp />
      <TokenDialog />
    </div>
  );
}

const loaded = new Map<string, FunctionComponent>();

/** A view, loaded when it is first shown. */
function Body({ view }: { view: View }) {
  const [fault, forgive] = useErrorBoundary();
  const [, setLoaded] = useState(0);
  const [failed, setFailed] = useState(false);
  const Component = loaded.get(view.path);
  const load = (): void => {
    setFailed(false);
    view.load().then(
      (component) => {
        loaded.set(view.path, component);
        setLoaded((n) => n + 1);
      },
      () => setFailed(true),
    );
  };
  useEffect(() => {
    if (!loaded.has(view.path)) load();
  }, [view]);
  const address = place.value.path.join("/");
  useEffect(() => forgive(), [address]);
  if (fault) {
    const error = new ApiError(0, `This view has a fault: ${String(fault)}`);
    return (
      <Failed error={error}>
        <LoadAnew />
      </Failed>
    );
  }
  if (Component) return <Component />;
  if (failed) {
    const error = new ApiError(0, "A part of the page was not loaded.");
    return (
      <Failed error={error} again={load}>
        <LoadAnew />
      </Failed>
    );
  }
  return <Loading lines={10} />;
}

/** A scheduler that was upgraded has other files, and may answer in other words. */
function LoadAnew() {
  return (
    <>
      <p>If the scheduler was upgraded, reload the page.</p>
      <button type="button" class="button" onClick={() => location.reload()}>
        Reload the page
      </button>
    </>
  );
}

/** The address of a fragment is taken by the views, so the link moves the focus itself. */
function skip(event: Event, main: HTMLElement | null): void {
  event.preventDefault();
  main?.focus();
}

function Brand() {
  return (
    <a class="brand" href={link("overview")}>
      <img src="./icon.svg" alt="" width={28} height={28} />
      Equipoise
    </a>
  );
}

function Sidebar({ active }: { active: string }) {
  return (
    <section class={menuOpen.value ? "sidebar open" : "sidebar"} aria-label="Equipoise">
      <Brand />
      <nav class="nav" aria-label="Views">
        {VIEWS.filter((view) => !view.unlisted).map((view) => {
          const here = view.path === active || (active === "pods" && view.path === "pending");
          return (
            <a
              key={view.path}
              href={link(view.path)}
              aria-current={here ? "page" : undefined}
              onClick={() => (menuOpen.value = false)}
            >
              <Icon name={view.icon} />
              {view.title}
            </a>
          );
        })}
      </nav>
      <div class="sidebar-foot">
        <Who />
        <div class="foot-buttons">
          <ThemeButton />
          <button
            type="button"
            class="button plain icon"
            aria-label="Keys"
            title="Keys (?)"
            onClick={showKeys}
          >
            <Icon name="keyboard" />
          </button>
        </div>
      </div>
    </section>
  );
}

function ThemeButton() {
  const icon = { system: "system", light: "sun", dark: "moon" } as const;
  return (
    <button
      type="button"
      class="button plain icon"
      aria-label={`Theme: ${theme.value}. Change it`}
      title={`Theme: ${theme.value} (t)`}
      onClick={nextTheme}
    >
      <Icon name={icon[theme.value]} />
    </button>
  );
}

/** Which replica answers, and whether it does. */
function Who() {
  const who = replica.value;
  if (!who) return null;
  const silent = silentSince.value !== null;
  const tone = silent ? "bad" : who.leading ? "good" : "warn";
  const word = silent ? "No answer" : who.leading ? "Leader" : "Standby";
  return (
    <div class="who">
      <strong>
        <i class={`dot ${tone}`} /> {word}
      </strong>
      <span class="cut" title={who.identity}>
        {who.identity.split("_")[0]}
      </span>
    </div>
  );
}

function Banners() {
  const who = replica.value;
  const silent = silentSince.value;
  return (
    <div role="status" aria-live="polite">
      {refusal.value && asideToken.value && (
        <div class="banner warn">
          <Icon name="lock" />
          <span class="grow">{refusal.value.message}</span>
          <button type="button" class="button small" onClick={() => (asideToken.value = false)}>
            Sign in
          </button>
        </div>
      )}
      {silent !== null && !refusal.value && (
        <div class="banner warn">
          <Icon name="warning" />
          <span>
            The scheduler has not answered since {moment(silent / 1000)}; it is asked again and
            again.
            {answeredAt.value !== null &&
              ` Nothing here is newer than ${moment(answeredAt.value / 1000)}.`}
          </span>
        </div>
      )}
      {silent === null && who && !who.leading && (
        <div class="banner info">
          <Icon name="signal" />
          <span>
            This replica is a standby: it decides nothing, and its queue does not move.{" "}
            {who.leader ? (
              <>
                The leader is <code>{who.leader.split("_")[0]}</code>.
              </>
            ) : (
              "There is no leader now."
            )}
          </span>
        </div>
      )}
    </div>
  );
}
