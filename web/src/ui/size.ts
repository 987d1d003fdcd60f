/** How much larger than usual text is: it grows on very wide screens, and what holds it with it. */
export function enlargement(): number {
  return Number.parseFloat(getComputedStyle(document.documentElement).fontSize) / 16 || 1;
}
