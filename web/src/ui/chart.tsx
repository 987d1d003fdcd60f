/** Lines or stacked areas over time, drawn on a canvas. */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

import { dark } from "../theme";
import { blended, translucent } from "./colour";
import { enlargement } from "./size";
import "../styles/chart.css";

export interface Line {
  label: string;
  /** The name of a colour of `tokens.css`. */
  colour: string;
  values: (number | null)[];
  filled?: boolean;
  dashed?: boolean;
}

interface ChartProps {
  label: string;
  time: number[];
  lines: Line[];
  format: (value: number | null | undefined) => string;
  stacked?: boolean;
  /** How values are written at the axis. */
  ticks: (value: number) => string;
  /** Whether tenfold is always the same distance. */
  logarithmic?: boolean;
  /** The least that the axis reaches up to. */
  least?: number;
}

/** In pixels where text has its usual size. */
const HEIGHT = 190;

/** Charts with one cursor: a moment is looked at in all of them. */
const SYNC = "time";

function colourOf(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Each line on top of those after it. */
function stackedUp(lines: Line[]): (number | null)[][] {
  const sums: (number | null)[][] = [];
  for (let at = lines.length - 1; at >= 0; at -= 1) {
    const below = sums[0];
    const line = lines[at];
    sums.unshift((line?.values ?? []).map((value, index) => (value ?? 0) + (below?.[index] ?? 0)));
  }
  return sums;
}

/** The powers of ten around some values. */
function decades(low: number | null, high: number | null): [number, number] {
  const from = 10 ** Math.floor(Math.log10(Math.max(0.01, low || 1)));
  const to = 10 ** Math.ceil(Math.log10(Math.max(from * 10, high || 1)));
  return [from, to];
}

/** The powers of ten between two of them. */
function powers(low: number, high: number): number[] {
  const first = Math.round(Math.log10(low));
  const last = Math.round(Math.log10(high));
  return Array.from({ length: last - first + 1 }, (_, at) => 10 ** (first + at));
}

/** Between two times on the axis: no fractions, whose texts would be equal. */
const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600];

/** Times on the axis; with seconds where minutes alone would be equal. */
function timeTexts(splits: number[], seconds: boolean): string[] {
  const style: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit" };
  if (seconds) style.second = "2-digit";
  return splits.map((time) => new Date(time * 1000).toLocaleTimeString("en-GB", style));
}

function optionsOf(
  props: ChartProps,
  width: number,
  moved: (index: number | null) => void,
): uPlot.Options {
  const { lines, stacked, ticks, logarithmic, least = 1 } = props;
  const larger = enlargement();
  const surface = colourOf("--surface");
  const axis = {
    stroke: colourOf("--text-3"),
    font: `${11 * larger}px ${colourOf("--font")}`,
    ticks: { show: false },
    grid: { stroke: colourOf("--line"), width: 1 },
  };
  return {
    width,
    height: HEIGHT * larger,
    padding: [10, 20, 0, 0],
    legend: { show: false },
    cursor: {
      sync: { key: SYNC },
      drag: { x: false, y: false },
      points: { size: 6 },
    },
    scales: {
      x: { time: true },
      y: logarithmic
        ? { distr: 3, range: (_plot, low, high) => decades(low, high) }
        : { range: (_plot, _low, high) => [0, Math.max(least, (high || 0) * 1.08)] },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        incrs: SECONDS,
        space: 64 * larger,
        size: 28 * larger,
        gap: 7 * larger,
        values: (_plot, splits, _axis, _space, step) => timeTexts(splits, step < 60),
      },
      {
        ...axis,
        size: 52 * larger,
        space: 34 * larger,
        ...(logarithmic ? { splits: (_plot, _at, low, high) => powers(low, high) } : {}),
        values: (_plot, splits) => splits.map((value) => (value === null ? "" : ticks(value))),
      },
    ],
    series: [
      {},
      ...lines.map((line): uPlot.Series => {
        const colour = colourOf(line.colour);
        const fill = stacked ? blended(colour, surface, 0.55) : translucent(colour, 0.13);
        return {
          label: line.label,
          stroke: colour,
          width: stacked ? 1 : 1.75,
          points: { show: false },
          ...(stacked || line.filled ? { fill } : {}),
          ...(line.dashed ? { dash: [5, 4] } : {}),
        };
      }),
    ],
    hooks: {
      setCursor: [(plot) => moved(plot.cursor.idx ?? null)],
    },
  };
}

function dataOf({ time, lines, stacked }: ChartProps): uPlot.AlignedData {
  const values = stacked ? stackedUp(lines) : lines.map((line) => line.values);
  return [time, ...values] as uPlot.AlignedData;
}

export function Chart(props: ChartProps) {
  const frame = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const [at, setAt] = useState<number | null>(null);
  const isDark = dark.value;
  const shape = props.lines.map((line) => line.label).join();

  useLayoutEffect(() => {
    const element = frame.current;
    if (!element) return;
    const width = Math.max(120, element.clientWidth);
    const made = new uPlot(
      optionsOf(latest.current, width, setAt),
      dataOf(latest.current),
      element,
    );
    plot.current = made;
    const watch = new ResizeObserver(() => {
      const wide = Math.max(120, element.clientWidth);
      if (wide !== made.width) made.setSize({ width: wide, height: made.height });
    });
    watch.observe(element);
    return () => {
      watch.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [isDark, shape]);

  useEffect(() => {
    plot.current?.setData(dataOf(props));
  }, [props.time, props.lines]);

  const index = at ?? props.time.length - 1;
  return (
    <figure class="chart" aria-label={props.label}>
      <figcaption class="chart-legend">
        {props.lines.map((line) => (
          <span key={line.label}>
            <i style={{ background: `var(${line.colour})` }} aria-hidden="true" />
            {line.label} <strong class="number">{props.format(line.values[index])}</strong>
          </span>
        ))}
      </figcaption>
      <div class="chart-place">
        <div
          ref={frame}
          class={props.time.length ? "chart-frame" : "chart-frame none"}
          aria-hidden="true"
        />
        {!props.time.length && <p class="chart-none">No samples yet</p>}
      </div>
    </figure>
  );
}
