// Parse the record of the page: resolve references to texts, and compute the states of a frame from changes.

const LEFT_OUT = new Set(['dropped', 'omitted', 'evicted', 'absent', 'merged']);
const CLASSES = {
  kept: 'kept', full: 'kept', sent: 'kept', expanded: 'expanded',
  compressed: 'compressed', summary: 'compressed', outline: 'compressed', masked: 'compressed', reduced: 'compressed',
  truncated: 'truncated', cut: 'truncated', placeholder: 'placeholder', listed: 'placeholder',
  beside: 'beside',
};

export const isLeftOut = (decision) => LEFT_OUT.has(decision);
export const classOf = (decision, critical) =>
  isLeftOut(decision) ? 'dropped' : critical && (decision === 'kept' || decision === 'full') ? 'critical'
    : CLASSES[decision] ?? 'kept';

// Show control characters as escapes: with them, in particular those of direction, a name could look like another.
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
const visible = (name) => name.replace(CONTROLS, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`);

export function readRecord(json) {
  const record = JSON.parse(json);
  const joined = new WeakMap();
  const text = (ref) => {
    if (ref === null || ref === undefined) return null;
    if (typeof ref === 'number') return record.texts[ref];
    if (!joined.has(ref)) {
      joined.set(ref, ref.map((p) => typeof p === 'number' ? record.texts[p] : record.texts[p[0]].slice(p[1], p[2])).join(''));
    }
    return joined.get(ref);
  };
  record.entries.forEach((entry, number) => {
    entry.number = number;
    entry.title = visible(entry.title);
    for (const item of entry.items) item.id = visible(item.id);
    entry.track = tracker(entry, entry.frames);
    if (entry.slider) entry.slider.track = tracker(entry, entry.slider.frames);
  });
  return { ...record, text };
}

// Return a function for the states of a frame: those of the previous frame with the changes applied.
function tracker(entry, frames) {
  const absent = (item) => ({ item, decision: 'absent', size: 0, ref: null, form: null, expand: null });
  let at = -1;
  let states = entry.items.map((_, i) => absent(i));
  return (wanted) => {
    if (wanted < at) {
      at = -1;
      states = entry.items.map((_, i) => absent(i));
    } else if (wanted > at) {
      states = states.slice();
    }
    while (at < wanted) {
      at += 1;
      for (const [item, decision, size = null, ref = null, form = null, expand = null] of frames[at].changes) {
        states[item] = { item, decision, size, ref, form, expand };
      }
    }
    return states;
  };
}

export function promptOf(record, entry, frame, states) {
  if (frame.prompt !== undefined) return record.text(frame.prompt);
  const texts = [];
  for (const state of states) {
    const text = record.text(state.ref);
    if (text) texts.push(text);
    else if (text === null && !isLeftOut(state.decision) && state.decision !== 'beside') return null;
  }
  return texts.join(entry.separator);
}

// The ranges of the text that are not sent, as [start, end]; null if unknown.
export function leftOut(ref, wholeRef, whole) {
  if (ref === null) return null;
  if (ref === wholeRef) return [];
  if (typeof ref === 'number') return null;
  const kept = ref.filter((piece) => typeof piece !== 'number' && piece[0] === wholeRef);
  const found = [];
  let place = 0;
  for (const [, start, end] of kept) {
    if (start > place) found.push([place, start]);
    place = end;
  }
  if (place < whole.length) found.push([place, whole.length]);
  return found;
}

// The lengths of the tokens, unpacked from the encoding of record.py.
export function unpackLengths(packed) {
  const found = [];
  let length = 0;
  for (let i = 0; i < packed.length; i += 1) {
    const code = packed.charCodeAt(i);
    if (code === 126) length += 80;
    else {
      found.push(length + code - 35);
      length = 0;
    }
  }
  return found;
}

// The first difference of two texts: in UTF-16 units for display, and in bytes of UTF-8; null if they are equal.
export function firstDifference(one, other) {
  let low = 0;
  let high = Math.min(one.length, other.length);
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (one.slice(low, middle) === other.slice(low, middle)) low = middle;
    else high = middle - 1;
  }
  if (low === one.length && low === other.length) return null;
  let place = low;
  if (place > 0 && /[\ud800-\udbff]/.test(one[place - 1])) place -= 1;
  const utf8 = new TextEncoder();
  const [left, right] = [one, other].map((text) => utf8.encode(text.slice(place, place + 2)));
  let same = 0;
  while (same < left.length && same < right.length && left[same] === right[same]) same += 1;
  return { place, byte: utf8.encode(one.slice(0, place)).length + same };
}

// True if the sizes of a frame's items are exact. The total may be a server's, and exact, when these are not.
export const partsExact = (frame) => frame.parts_exact ?? frame.exact;

const GROUPED = new Intl.NumberFormat('en-US');
export const figure = (number, exact = true) =>
  number === null || number === undefined ? 'unknown' : `${exact ? '' : '~'}${GROUPED.format(number)}`;

// What a budget leaves: `12 free`, or `3 over`.
export const spare = (tokens, exact) => (tokens < 0 ? `${figure(-tokens, exact)} over` : `${figure(tokens, exact)} free`);

// A session has turns; the frames of any other entry are the same request before and after it was changed.
export const isSession = (entry) => entry.kind === 'transcript';

// The frame of the request: the last one, but a refused request is shown as it was given, not as a remedy would make it.
export const mainFrame = (entry) => (entry.verdict && !entry.verdict.ok ? 0 : entry.frames.length - 1);
