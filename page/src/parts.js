// Components of several views: a text and a list of any length, the strip, the waterfall.
import { h } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import htm from 'htm';
import { classOf, figure, partsExact, spare } from './record.js';

export const html = htm.bind(h);

const CHUNK = 4000;

// Split a text into chunks, at ends of lines if possible, so that the browser lays out only those in view.
export function chunks(text, from = 0, to = text.length) {
  const found = [];
  let start = from;
  while (start < to) {
    let end = Math.min(start + CHUNK, to);
    if (end < to) {
      const line = text.lastIndexOf('\n', end);
      if (line > start) end = line + 1;
      else if (/[\ud800-\udbff]/.test(text[end - 1])) end -= 1;
    }
    found.push([start, end]);
    start = end;
  }
  return found;
}

// Chunks of a long text are added to the page as the reader scrolls to its end.
const FIRST = 16;

export function Text({ text, gone = [], label }) {
  const pieces = useMemo(() => {
    const found = [];
    let place = 0;
    for (const [start, end] of [...gone, [text.length, text.length]]) {
      for (const [a, b] of chunks(text, place, start)) found.push([a, b, false]);
      for (const [a, b] of chunks(text, start, end)) found.push([a, b, true]);
      place = end;
    }
    return found;
  }, [text, gone]);
  const [shown, setShown] = useState(FIRST);
  useEffect(() => setShown(FIRST), [text]);
  const more = (event) => {
    const box = event.currentTarget;
    if (shown < pieces.length && box.scrollTop + 2 * box.clientHeight > box.scrollHeight) setShown(shown * 2);
  };
  return html`<div class="text" tabindex="0" role="region" aria-label=${label} onScroll=${more}>
    ${text === '' && html`<p class="faint">empty</p>`}
    ${pieces.slice(0, shown).map(([start, end, isLeftOut]) => html`<pre key=${start} class=${`${isLeftOut ? 'gone' : ''}${end - start > CHUNK / 2 ? ' long' : ''}`} dir="auto">${isLeftOut ? html`<del>${text.slice(start, end)}</del>` : text.slice(start, end)}</pre>`)}
    ${shown < pieces.length && html`<button class="more" onClick=${() => setShown(pieces.length)}>
      Show the other ${figure(text.length - pieces[shown][0])} characters</button>`}
  </div>`;
}

// A reference to an element, and what `read` returns for it now and after each change of its size.
function useMeasured(initial, read) {
  const ref = useRef(null);
  const [size, setSize] = useState(initial);
  useLayoutEffect(() => {
    const measure = () => setSize(ref.current ? read(ref.current) : initial);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(ref.current);
    return () => observer.disconnect();
  }, []);
  return [ref, size];
}

// A list that renders only the rows in view. Arrow keys choose a row.
export function List({ rows, height, label, chosen, onChoose, row, keyOf }) {
  const [box, room] = useMeasured(600, (element) => element.clientHeight || 600);
  const [top, setTop] = useState(0);
  const at = rows.findIndex((item) => keyOf(item) === chosen);
  useEffect(() => {
    if (at < 0) return;
    const place = at * height;
    if (place < box.current.scrollTop) box.current.scrollTop = place;
    else if (place + height > box.current.scrollTop + box.current.clientHeight) {
      box.current.scrollTop = place + height - box.current.clientHeight;
    }
  }, [chosen]);
  const onKeyDown = (event) => {
    const page = Math.max(1, Math.floor(room / height) - 1);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: rows.length - 1 }[event.key];
    if (to === undefined || !rows.length) return;
    event.preventDefault();
    onChoose(keyOf(rows[Math.max(0, Math.min(rows.length - 1, to))]));
  };
  const first = Math.max(0, Math.floor(top / height) - 6);
  const last = Math.min(rows.length, Math.ceil((top + room) / height) + 6);
  const shown = rows.slice(first, last);
  const active = at >= first && at < last ? `row-${keyOf(rows[at])}` : undefined;
  return html`<div class="list" ref=${box} tabindex="0" role="listbox" aria-label=${label} aria-activedescendant=${active} style=${{ height: `${Math.max(1, rows.length) * height + 2}px` }}
      onScroll=${(event) => setTop(event.currentTarget.scrollTop)} onKeyDown=${onKeyDown}>
    <div class="list-inside" role="presentation" style=${{ height: `${rows.length * height}px` }}>
      ${shown.map((item, i) => html`<div key=${keyOf(item)} id=${`row-${keyOf(item)}`} role="option" class="row"
        aria-selected=${keyOf(item) === chosen ? 'true' : 'false'} aria-setsize=${rows.length} aria-posinset=${first + i + 1}
        style=${{ top: `${(first + i) * height}px`, height: `${height}px` }} onClick=${() => onChoose(keyOf(item))}>${row(item)}</div>`)}
    </div>
  </div>`;
}

// The segments of a strip; those narrower than 1.5 pixels are merged, so that all widths are to scale.
function segments(entry, states, scale, width) {
  const found = [];
  let start = 0;
  for (const state of states) {
    const size = state.size ?? 0;
    if (!size) continue;
    const kind = classOf(state.decision, entry.items[state.item].critical);
    const before = found[found.length - 1];
    if (before && ((before.end - before.start) / scale) * width < 1.5 && (size / scale) * width < 1.5) {
      before.end = start + size;
      before.items.push(state.item);
      if (kind !== before.kind) before.kind = 'mixed';
    } else {
      found.push({ start, end: start + size, kind, items: [state.item] });
    }
    start += size;
  }
  return found;
}

export const sizeOf = (states) => states.reduce((sum, state) => sum + (state.size ?? 0), 0);

export function Strip({ entry, frame, states, chosen, onChoose, cached = null, scale: given, label }) {
  const [ref, width] = useMeasured(0, (element) => element.clientWidth);
  const [over, setOver] = useState(null);
  const inParts = sizeOf(states);
  const sent = Math.max(frame.total ?? 0, inParts, 1);
  const whole = Math.max(given ?? 0, frame.budget ?? 0, sent);
  const [near, setNear] = useState(given === undefined && whole > 6 * sent);
  const scale = near ? sent : whole;
  const found = useMemo(() => segments(entry, states, scale, width || 1000), [entry, states, scale, width]);
  const percent = (tokens) => `${(100 * tokens) / scale}%`;
  const named = (segment) => segment.items.length > 1 ? `${segment.items.length} sections` : entry.items[segment.items[0]].id;
  const described = over ?? found.find((segment) => segment.items.includes(chosen));
  const free = frame.budget === null ? null : frame.budget - (frame.total ?? 0);
  return html`<figure class="strip" aria-label=${label}>
    <div class="track" ref=${ref} onMouseLeave=${() => setOver(null)}>
      ${found.map((segment) => html`<div key=${segment.items[0]} class=${`segment ${segment.kind} ${segment.items.includes(chosen) ? 'chosen' : ''}`}
        style=${{ left: percent(segment.start), width: percent(segment.end - segment.start) }}
        onMouseEnter=${() => setOver(segment)} onClick=${() => onChoose(segment.items[0])}>
        ${((segment.end - segment.start) / scale) * width > 64 && html`<span>${named(segment)}</span>`}</div>`)}
      ${frame.budget !== null && frame.budget <= scale && html`<div class="wall" style=${{ left: percent(frame.budget) }}></div>`}
    </div>
    ${cached !== null && html`<div class="cache" aria-hidden="true">
      <div class="warm" style=${{ width: percent(cached.tokens) }}></div>
      <div class="new" style=${{ left: percent(cached.tokens), width: percent(Math.max(0, inParts - cached.tokens)) }}></div></div>`}
    <div class="scale" aria-hidden="true">${[0, 0.25, 0.5, 0.75, 1].map((part) => html`<span>${figure(Math.round(scale * part))}</span>`)}</div>
    <figcaption>
      ${described ? html`<b><bdi>${named(described)}</bdi></b> ${figure(described.end - described.start, partsExact(frame))} tokens, ${described.kind === 'mixed' ? 'several decisions' : described.kind}`
        : html`${figure(frame.total, frame.exact)} tokens${frame.budget === null ? '' : ` of ${figure(frame.budget)}, ${spare(free, frame.exact)}`}. Widths are to scale.`}
      ${whole > sent * 1.02 && html` <button class="near" onClick=${() => setNear(!near)}>${near ? `Show all ${figure(whole)}` : 'Show only what is sent'}</button>`}
      ${cached !== null && html` <span class="faint">${cached.note}</span>`}
    </figcaption>
  </figure>`;
}

export function Waterfall({ entry, frame, states }) {
  const rows = [];
  const add = (label, from, to, kind, sign = '') => rows.push({ label, from, to, kind, sign });
  const budget = frame.budget;
  const window = entry.limits.length ? entry.limits[0][1] : budget;
  if (entry.limits.length) {
    let left = window;
    entry.limits.forEach(([label, tokens], i) => {
      if (i) add(label, left - tokens, left, 'held', '−');
      else add(label, 0, tokens, 'total');
      left -= i ? tokens : 0;
    });
  }
  if (budget !== null) add('budget', 0, budget, 'total', entry.limits.length ? '=' : '');
  const total = frame.total ?? 0;
  const fixed = frame.fixed;
  if (fixed !== null && fixed !== undefined) {
    add('critical', 0, Math.min(fixed, total), 'critical', '−');
    add('flexible', Math.min(fixed, total), total, 'kept', '−');
  } else add('sent', 0, total, 'kept', budget === null ? '' : '−');
  if (budget !== null) add(budget < total ? 'over' : 'free', Math.min(total, budget), Math.max(total, budget), budget < total ? 'dropped' : 'free', '=');
  const scale = Math.max(window ?? 0, total, 1);
  const joins = total - sizeOf(states);
  return html`<table class="waterfall"><caption>Where the budget goes</caption><tbody>
    ${rows.map(({ label, from, to, kind, sign }) => html`<tr><th scope="row"><span class="sign">${sign}</span>${label}</th>
      <td class="figure">${figure(to - from, kind === 'total' || kind === 'held' || frame.exact)}</td>
      <td class="bar" aria-hidden="true"><div class=${`fill ${kind}`} style=${{ left: `${(100 * from) / scale}%`, width: `${(100 * (to - from)) / scale}%` }}></div></td></tr>`)}
    </tbody>${joins !== 0 && frame.total !== null && html`<tfoot><tr><td colspan="3" class="faint">${figure(total, frame.exact)} with ${joins > 0 ? '+' : '−'}${figure(Math.abs(joins))} at the joins: separators, markup, and tokens that merge at borders.</td></tr></tfoot>`}
  </table>`;
}

export function Legend({ entry, states }) {
  const kinds = new Map();
  for (const { decision, item } of states) {
    if (decision === 'absent') continue;
    const kind = classOf(decision, entry.items[item].critical);
    const { number, names } = kinds.get(kind) ?? { number: 0, names: new Set() };
    kinds.set(kind, { number: number + 1, names: names.add(kind === 'critical' ? kind : decision) });
  }
  // The list of parts names the decisions, so the legend does, too.
  return html`<ul class="legend">${[...kinds].map(([kind, { number, names }]) => html`<li><span class=${`swatch ${kind}`} aria-hidden="true"></span>${[...names].join(', ')} <b>${figure(number)}</b></li>`)}</ul>`;
}

export const isShown = (state) => state.decision !== 'absent';
