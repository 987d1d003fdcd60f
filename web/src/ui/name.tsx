/**
 * A name that is cut in its middle: what tells the pods of one owner apart stands at the end. A
 * screen reader reads it in one piece.
 */

const TAIL = 9;

export function Name({ of }: { of: string }) {
  const own = of.lastIndexOf("/") + 1;
  const end = of.length - own > TAIL ? of.length - TAIL : own;
  return (
    <span class="name" title={of}>
      <span class="hidden-label">{of}</span>
      <span class="cut" aria-hidden="true">
        {own > 0 && <span class="quieter">{of.slice(0, own)}</span>}
        {of.slice(own, end)}
      </span>
      <span aria-hidden="true">{of.slice(end)}</span>
    </span>
  );
}
