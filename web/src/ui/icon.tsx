/** The few pictures that the page has, drawn on a grid of 24. */

const PATHS = {
  overview: "M3 12h4l3-8 4 16 3-8h4",
  pending: "M12 7v5l3 2M12 21a9 9 0 1 1 0-18 9 9 0 0 1 0 18Z",
  pods: "m12 3 8 4.5v9L12 21l-8-4.5v-9L12 3Zm0 9 8-4.5M12 12v9m0-9L4 7.5",
  nodes: "M4 4h7v7H4zM13 4h7v7h-7zM4 13h7v7H4zM13 13h7v7h-7z",
  decisions: "M4 6h10M4 12h16M4 18h7m4 0 2 2 4-4",
  classes: "m12 4 9 5-9 5-9-5 9-5Zm-9 9.5 9 5 9-5",
  groups:
    "M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7Zm-6 9a6 6 0 0 1 12 0m1-9.2a3.5 3.5 0 0 0 0-6.6M21 20a6 6 0 0 0-4-5.7",
  whatif: "M9 3h6m-5 0v6l-5.6 9.4A1.8 1.8 0 0 0 6 21h12a1.8 1.8 0 0 0 1.6-2.6L14 9V3M7.5 15h9",
  sun: "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8Zm0-13v2m0 14v2M3 12h2m14 0h2M5.6 5.6 7 7m10 10 1.4 1.4m0-12.8L17 7M7 17l-1.4 1.4",
  moon: "M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5Z",
  system: "M4 5h16v11H4zM9 20h6m-3-4v4",
  keyboard: "M3 6h18v12H3zM7 10h.01M11 10h.01M15 10h.01M7 14h10",
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "m6 6 12 12M18 6 6 18",
  copy: "M9 9h11v11H9zM15 9V4H4v11h5",
  check: "m5 12.5 4.5 4.5L19 7.5",
  cross: "m7 7 10 10M17 7 7 17",
  search: "M11 18a7 7 0 1 1 0-14 7 7 0 0 1 0 14Zm5-2 5 5",
  chevron: "m9 6 6 6-6 6",
  arrow: "M5 12h14m-6-6 6 6-6 6",
  warning:
    "M12 9v4.5m0 3.5v.01M10.3 4 2.6 17.5A2 2 0 0 0 4.3 20.5h15.4a2 2 0 0 0 1.7-3L13.7 4a2 2 0 0 0-3.4 0Z",
  lock: "M6 11h12v9H6zM8.5 11V8a3.5 3.5 0 0 1 7 0v3",
  empty: "M4 13 6.5 5h11L20 13v6H4v-6Zm0 0h5l1 2.5h4L15 13h5",
  wrench:
    "M14.7 6.3a1 1 0 0 0 0 1.4l1.6 1.6a1 1 0 0 0 1.4 0l3.77-3.77a6 6 0 0 1-7.94 7.94l-6.91 6.91a2.12 2.12 0 0 1-3-3l6.91-6.91a6 6 0 0 1 7.94-7.94l-3.76 3.76z",
  refresh: "M20 5v5h-5M4 19v-5h5m10.5-4A8 8 0 0 0 6 7.5L4.5 9M4.5 14A8 8 0 0 0 18 16.5l1.5-1.5",
  signal: "M5 12.5a10 10 0 0 1 14 0M8.5 16a5 5 0 0 1 7 0M12 19.5v.01",
} as const;

export type IconName = keyof typeof PATHS;

/** A picture beside a word that says the same; screen readers skip it. */
export function Icon({ name, small = false }: { name: IconName; small?: boolean }) {
  return (
    <svg class={small ? "icon-svg s" : "icon-svg"} viewBox="0 0 24 24" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
