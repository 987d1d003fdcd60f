/**
 * A table of which only the rows that are seen are drawn: ten thousand rows cost as much as thirty.
 * Arrow keys, Page Up and Down, Home and End move; Enter opens a row.
 */

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import { Icon } from "./icon";
import { enlargement } from "./size";

export interface Column<Row> {
  name: string;
  title: ComponentChildren;
  /** As in `grid-template-columns`. */
  width: string;
  cell: (row: Row) => ComponentChildren;
  /** What to sort by; without it the column does not sort. */
  by?: (row: Row) => number | string;
  /** Numbers stand at the end. */
  end?: boolean;
  /** Left out where the table is narrower than so many pixels. */
  from?: number;
}

export interface Sorting {
  column: string;
  down: boolean;
}

interface TableProps<Row> {
  label: string;
  columns: Column<Row>[];
  rows: readonly Row[];
  id: (row: Row) => string;
  /** The height of every row, in pixels where text has its usual size. */
  rowHeight?: number;
  /** The most that the whole takes, likewise. Without: what the window has. */
  height?: number;
  sorting?: Sorting;
  /** Takes over the sorting: the rows then come sorted. */
  onSort?: (sorting: Sorting) => void;
  /** The height of the head, likewise. */
  headHeight?: number;
  /** Where the table is narrower, likewise, it scrolls, and the first column stays. */
  minWidth?: number;
  onOpen?: (row: Row) => void;
  /** Where a row leads; it is then a link. */
  href?: (row: Row) => string;
  selected?: string;
  empty?: ComponentChildren;
}

const OVERSCAN = 6;
/** Of a table that takes the height that the window has; less is no table. */
const LEAST_HEIGHT = 320;
/** The margin below the page, and what a frame and its shadow take. */
const BELOW = 42;

export function sorted<Row>(
  rows: readonly Row[],
  columns: Column<Row>[],
  sorting: Sorting | null,
): readonly Row[] {
  const by = columns.find((column) => column.name === sorting?.column)?.by;
  if (!by || !sorting) return rows;
  const sign = sorting.down ? -1 : 1;
  return rows
    .map((row, at) => ({ row, at, key: by(row) }))
    .sort((a, b) => (a.key < b.key ? -sign : a.key > b.key ? sign : a.at - b.at))
    .map((each) => each.row);
}

export function Table<Row>(props: TableProps<Row>) {
  const { columns, onOpen, href } = props;
  const frame = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [width, setWidth] = useState(1000);
  const [room, setRoom] = useState(LEAST_HEIGHT);
  const [larger, setLarger] = useState(enlargement);
  const rowHeight = Math.round((props.rowHeight ?? 40) * larger);
  const headHeight = Math.round((props.headHeight ?? 36) * larger);
  const height = props.height ? Math.round(props.height * larger) : room;
  const minWidth = Math.round((props.minWidth ?? 0) * larger);
  /** The id of the row that keys have led to; it stays the same row when others come before it. */
  const [active, setActive] = useState<string | null>(null);
  const [told, setTold] = useState("");
  const [own, setOwn] = useState<Sorting | null>(props.sorting ?? null);
  const sorting = props.onSort ? (props.sorting ?? null) : own;

  useLayoutEffect(() => {
    const element = frame.current;
    if (!element) return;
    const measure = (): void => {
      setWidth(element.clientWidth);
      const unit = enlargement();
      setLarger(unit);
      const above = element.getBoundingClientRect().top + scrollY;
      setRoom(Math.max(LEAST_HEIGHT, Math.floor(innerHeight - above - BELOW * unit)));
    };
    const watch = new ResizeObserver(measure);
    watch.observe(element);
    watch.observe(document.documentElement);
    addEventListener("resize", measure);
    measure();
    return () => {
      watch.disconnect();
      removeEventListener("resize", measure);
    };
  }, [props.rows.length === 0]);

  const shown = columns.filter((column) => !column.from || width >= column.from * larger);
  const rows = useMemo(
    () => (props.onSort ? props.rows : sorted(props.rows, columns, sorting)),
    [props.rows, columns, sorting, !props.onSort],
  );
  const activeAt = useMemo(
    () => (active === null ? -1 : rows.findIndex((row) => props.id(row) === active)),
    [rows, active],
  );
  const template = {
    gridTemplateColumns: shown.map((column) => column.width).join(" "),
    minWidth: `${minWidth}px`,
  };
  const first = Math.max(0, Math.floor(top / rowHeight) - OVERSCAN);
  const last = Math.min(rows.length, Math.ceil((top + height) / rowHeight) + OVERSCAN);

  useSteady(frame, rows, props.id, rowHeight);

  const move = (to: number): void => {
    const next = Math.max(0, Math.min(rows.length - 1, to));
    const row = rows[next];
    setActive(row ? props.id(row) : null);
    const element = frame.current;
    if (!element) return;
    const visible = element.clientHeight - headHeight;
    if (next * rowHeight < element.scrollTop) element.scrollTop = next * rowHeight;
    else if ((next + 1) * rowHeight > element.scrollTop + visible)
      element.scrollTop = (next + 1) * rowHeight - visible;
  };

  const onKey = (event: KeyboardEvent): void => {
    const page = Math.max(
      1,
      Math.floor(((frame.current?.clientHeight ?? height) - headHeight) / rowHeight),
    );
    const steps: Record<string, number> = {
      ArrowDown: activeAt + 1,
      ArrowUp: activeAt - 1,
      PageDown: activeAt + page,
      PageUp: activeAt - page,
      Home: 0,
      End: rows.length - 1,
    };
    const to = steps[event.key];
    const row = rows[activeAt];
    if (to !== undefined) {
      event.preventDefault();
      move(to);
    } else if (event.key === "Enter" && row && event.target === frame.current) {
      if (href) location.hash = href(row);
      else onOpen?.(row);
    }
  };

  // The focus stays where it is, so the row that a key leads to is told.
  useEffect(() => {
    const row = frame.current?.querySelector(`.table-row[aria-rowindex="${activeAt + 2}"]`);
    setTold(row ? spoken(row) : "");
  }, [active, top]);

  const sortBy = (column: Column<Row>): void => {
    const same = sorting?.column === column.name;
    const next = { column: column.name, down: same ? !sorting.down : !!column.end };
    if (props.onSort) props.onSort(next);
    else setOwn(next);
    if (frame.current) frame.current.scrollTop = 0;
  };

  /** A click beside the link in the first cell leads there as well; links do that by themselves. */
  const open = (event: Event, row: Row): void => {
    if (event.target instanceof Element && event.target.closest("a, button")) return;
    if (href) location.hash = href(row);
    else onOpen?.(row);
  };

  const cells = (row: Row) =>
    shown.map((column) => (
      <div role="cell" key={column.name} class={column.end ? "end cut" : "cut"}>
        {href && column === shown[0] ? (
          <a href={href(row)} tabIndex={-1}>
            {column.cell(row)}
          </a>
        ) : (
          column.cell(row)
        )}
      </div>
    ));

  const drawn = rows.slice(first, last).map((row, offset) => {
    const at = first + offset;
    const leads = href || onOpen;
    return (
      <div
        key={props.id(row)}
        role="row"
        aria-rowindex={at + 2}
        class={leads ? "table-row leads" : "table-row"}
        aria-selected={at === activeAt || props.selected === props.id(row)}
        style={{ ...template, top: `${at * rowHeight}px`, height: `${rowHeight}px` }}
        onClick={leads && ((event) => open(event, row))}
      >
        {cells(row)}
      </div>
    );
  });

  if (!rows.length && props.empty) return <>{props.empty}</>;
  return (
    <>
      <div
        ref={frame}
        class={minWidth > width ? "table wide" : "table"}
        role="table"
        aria-label={props.label}
        aria-rowcount={rows.length + 1}
        tabIndex={0}
        style={{ maxHeight: `${height}px` }}
        onScroll={(event) => setTop(event.currentTarget.scrollTop)}
        onKeyDown={onKey}
      >
        <div
          class="table-head"
          role="row"
          aria-rowindex={1}
          style={{ ...template, height: `${headHeight}px` }}
        >
          {shown.map((column) => {
            const mine = sorting?.column === column.name ? sorting : null;
            const order = mine ? (mine.down ? "descending" : "ascending") : "none";
            return (
              <div
                role="columnheader"
                key={column.name}
                class={column.end ? "end" : ""}
                aria-sort={column.by ? order : undefined}
              >
                {column.by ? (
                  <button type="button" onClick={() => sortBy(column)}>
                    {column.title}
                    {mine && <span aria-hidden="true">{mine.down ? "↓" : "↑"}</span>}
                  </button>
                ) : (
                  column.title
                )}
              </div>
            );
          })}
        </div>
        <div
          role="rowgroup"
          class="table-body"
          style={{ height: `${rows.length * rowHeight}px`, minWidth: `${minWidth}px` }}
        >
          {drawn}
        </div>
      </div>
      <p class="hidden-label" aria-live="polite">
        {told}
      </p>
    </>
  );
}

/** Rows that come before those that are seen do not move them: a click meets the row it is meant for. */
function useSteady<Row>(
  frame: { current: HTMLDivElement | null },
  rows: readonly Row[],
  id: (row: Row) => string,
  rowHeight: number,
): void {
  const before = useRef(rows);
  useLayoutEffect(() => {
    const [element, old] = [frame.current, before.current];
    before.current = rows;
    const at = Math.ceil((element?.scrollTop ?? 0) / rowHeight);
    const [first, second] = [old[at], old[at + 1]];
    if (!element || !at || !first || !second) return;
    const now = rows.findIndex((row) => id(row) === id(first));
    const next = rows[now + 1];
    // Where the order is another one, there is nothing to hold on to.
    if (now >= 0 && next && id(next) === id(second)) element.scrollTop += (now - at) * rowHeight;
  }, [rows]);
}

/** What is said of a row: its cells, and marks by their names. */
function spoken(row: Element): string {
  return [...row.children]
    .map((cell) => wordsOf(cell) || cell.querySelector("[aria-label]")?.ariaLabel)
    .filter(Boolean)
    .join(", ");
}

/** The text of a cell without what is only for the eye. */
function wordsOf(cell: Element): string {
  const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  let words = "";
  while (texts.nextNode()) {
    const text = texts.currentNode as Text;
    if (!text.parentElement?.closest("[aria-hidden=true]")) words += text.data;
  }
  return words;
}

/** A field that filters what is below it. */
export function Search({
  value,
  onInput,
  label,
}: {
  value: string;
  onInput: (text: string) => void;
  label: string;
}) {
  return (
    <label class="search">
      <span class="hidden-label">{label}</span>
      <Icon name="search" small />
      <input
        type="search"
        class="field"
        placeholder={label}
        value={value}
        data-search
        onInput={(event) => onInput(event.currentTarget.value)}
      />
    </label>
  );
}
