// The views of an entry: the request, its steps, other budgets, turns, a comparison, the prompt.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { Card } from './card.js';
import { Legend, List, Strip, Text, Waterfall, html, isShown, sizeOf } from './parts.js';
import { classOf, figure, firstDifference, isLeftOut, isSession, mainFrame, partsExact, promptOf, spare, unpackLengths } from './record.js';

const ROW = 44;
const ORDERS = {
  sent: ['in order', null],
  base: ['largest first', (entry) => (a, b) => (entry.items[b.item].base ?? b.size ?? 0) - (entry.items[a.item].base ?? a.size ?? 0)],
  lost: ['most left out first', (entry) => (a, b) => lost(entry, b) - lost(entry, a)],
};
const lost = (entry, state) => (entry.items[state.item].base ?? 0) - (state.size ?? 0);

function Rows({ entry, frame, states, chosen, onChoose }) {
  const [wanted, setWanted] = useState('');
  const [order, setOrder] = useState('sent');
  const rows = useMemo(() => {
    const low = wanted.toLowerCase();
    const found = states.filter((state) => isShown(state) && (!low || entry.items[state.item].id.toLowerCase().includes(low)
      || state.decision.includes(low) || entry.items[state.item].kind.includes(low)));
    return ORDERS[order][1] ? found.sort(ORDERS[order][1](entry)) : found;
  }, [entry, states, wanted, order]);
  const most = useMemo(() => Math.max(1, ...rows.map((state) => Math.max(entry.items[state.item].base ?? 0, state.size ?? 0)).slice(0, 60000)), [rows]);
  const row = (state) => {
    const item = entry.items[state.item];
    const kind = classOf(state.decision, item.critical);
    return html`<span class="name"><bdi>${item.id}</bdi><small>${item.kind === 'section' ? '' : item.kind}</small></span>
      <span class="meter" aria-hidden="true"><i class="held" style=${{ width: `${(100 * (item.base ?? 0)) / most}%` }}></i><i class=${kind} style=${{ width: `${(100 * (state.size ?? 0)) / most}%` }}></i></span>
      <span class="figures">${item.base !== null && item.base !== state.size ? html`<small>${figure(item.base, partsExact(frame))} → </small>` : ''}${figure(state.size, partsExact(frame) || isLeftOut(state.decision))}</span>
      <span class=${`chip ${kind}`}>${state.decision}</span>`;
  };
  return html`<section class="rows" aria-label="Sections">
    <div class="tools"><label><span class="unseen">Find a section</span><input type="search" placeholder="Find" value=${wanted} onInput=${(e) => setWanted(e.target.value)} /></label>
      <label><span class="unseen">Order</span><select value=${order} onChange=${(e) => setOrder(e.target.value)}>${Object.entries(ORDERS).map(([name, [label]]) => html`<option value=${name}>${label}</option>`)}</select></label>
      <span class="faint" role="status">${figure(rows.length)} ${rows.length === 1 ? 'row' : 'rows'}</span></div>
    <${List} rows=${rows} height=${ROW} label="Sections" chosen=${chosen} onChoose=${onChoose} row=${row} keyOf=${(state) => state.item} />
  </section>`;
}

// The tokens of a frame that a prompt cache can hold: the server's figure, or the prefix shared with the last frame.
function cachedOf(frame, states, before) {
  if (frame.usage && frame.usage.cached !== null && frame.usage.cached !== undefined) {
    return { tokens: frame.usage.cached, note: `${figure(frame.usage.cached)} tokens came from the prompt cache (the server's figure); the rest was new.` };
  }
  if (!before) return null;
  let tokens = 0;
  for (let i = 0; i < states.length; i += 1) {
    const [old, now] = [before[i], states[i]];
    if (isLeftOut(old.decision) && isLeftOut(now.decision)) continue;
    if (old.decision !== now.decision || old.size !== now.size || JSON.stringify(old.ref) !== JSON.stringify(now.ref)) break;
    tokens += now.size ?? 0;
  }
  return { tokens, note: `${figure(tokens, partsExact(frame))} tokens at the start are as they were one turn before, so a prompt cache can hold them.` };
}

export function Stage({ record, entry, frame, states, before = null, scale, steps, waterfall = true, chosen, onChoose }) {
  const cached = useMemo(() => cachedOf(frame, states, before), [frame, states, before]);
  return html`<div class="stage">
    ${frame.error ? html`<p class="refused" role="status">${frame.error}</p>`
      : html`<${Strip} entry=${entry} frame=${frame} states=${states} chosen=${chosen} onChoose=${onChoose} cached=${cached} scale=${scale} label="The request, in order" />
        <${Legend} entry=${entry} states=${states} />`}
    ${waterfall && !frame.error && html`<${Waterfall} entry=${entry} frame=${frame} states=${states} />`}
    <div class="halves"><${Rows} entry=${entry} frame=${frame} states=${states} chosen=${chosen} onChoose=${onChoose} />
      <${Card} record=${record} entry=${entry} frame=${frame} state=${states[chosen]} steps=${steps} /></div>
  </div>`;
}

export function Request({ record, entry, chosen, onChoose }) {
  const last = mainFrame(entry);
  const states = useMemo(() => entry.track(last), [entry]);
  const before = useMemo(() => (last > 0 && isSession(entry) ? entry.track(last - 1) : null), [entry]);
  return html`<${Stage} record=${record} entry=${entry} frame=${entry.frames[last]} states=${states} before=${before} chosen=${chosen} onChoose=${onChoose} />`;
}

// The steps from whole sections to the final request.
export function Steps({ record, entry, chosen, onChoose }) {
  const frame = entry.frames[entry.frames.length - 1];
  const final = useMemo(() => entry.track(entry.frames.length - 1), [entry]);
  const steps = frame.steps ?? [];
  const [done, setDone] = useState(steps.length);
  const states = useMemo(() => {
    const touched = new Map();
    steps.forEach((step, number) => step.items.forEach((i) => touched.set(i, { ...touched.get(i), last: number })));
    const found = final.map((state) => touched.has(state.item)
      ? { ...state, decision: 'kept', size: entry.items[state.item].base, ref: entry.items[state.item].text, form: null } : state);
    steps.slice(0, done).forEach((step, number) => step.items.forEach((i) => {
      if (touched.get(i).last === number) found[i] = final[i];
      else if (!step.whole) found[i] = { ...found[i], decision: PAST[step.action] ?? step.action, size: step.after, ref: step.text ?? null };
    }));
    return found;
  }, [entry, done]);
  if (!steps.length) return html`<p class="empty">Everything fitted: nothing was changed, so there are no steps.</p>`;
  const at = steps[done - 1];
  const total = done === steps.length ? frame.total : at && at.whole ? at.after : null;
  const scale = Math.max(frame.budget ?? 0, entry.items.reduce((sum, item) => sum + (item.base ?? 0), 0));
  const go = (number) => {
    setDone(number);
    if (number > 0 && steps[number - 1].items.length) onChoose(steps[number - 1].items[0]);
  };
  return html`<div class="control"><label for="step">Step <b>${done}</b> of ${steps.length}</label>
      <input id="step" type="range" min="0" max=${steps.length} value=${done} onInput=${(e) => go(Number(e.target.value))} />
      <p role="status">${at ? html`<b>${at.action}</b> ${at.items.slice(0, 3).map((i) => entry.items[i].id).join(', ')}${at.items.length > 3 ? ` and ${at.items.length - 3} more` : ''}${at.whole ? ', the whole' : ''}: ${figure(at.before, frame.exact)} → ${figure(at.after, frame.exact)}, because ${at.why}.`
        : 'Before the first step: every section whole.'}</p></div>
    <${Stage} record=${record} entry=${entry} frame=${{ ...frame, total: total ?? sizeOf(states) }} states=${states} scale=${scale} waterfall=${false} steps=${steps.slice(0, done)} chosen=${chosen} onChoose=${onChoose} />`;
}
const PAST = { expand: 'expanded', compress: 'compressed', truncate: 'truncated', drop: 'dropped', reclaim: 'kept', mask: 'masked', cut: 'cut', evict: 'evicted' };

export function WhatIf({ record, entry, chosen, onChoose, onBudget = () => {} }) {
  const { low, high, every, frames } = entry.slider;
  const own = entry.frames[0].budget ?? high;
  const [budget, setBudget] = useState(own);
  const place = useMemo(() => {
    let [left, right] = [0, frames.length - 1];
    while (left < right) {
      const middle = (left + right + 1) >> 1;
      if (frames[middle].budget <= budget) left = middle;
      else right = middle - 1;
    }
    return left;
  }, [entry, budget]);
  const frame = frames[place];
  const states = useMemo(() => entry.slider.track(place), [entry, place]);
  const ownStates = useMemo(() => entry.track(0), [entry]);
  const changed = states.filter((state, i) => state.decision !== ownStates[i].decision || state.form !== ownStates[i].form).length;
  const exactHere = every || frame.budget === budget || (place + 1 < frames.length && frames[place + 1].budget === budget + 1 && frame.budget === budget);
  const shown = { ...frame, budget: exactHere ? budget : frame.budget };
  const put = (value) => {
    const within = Math.max(low, Math.min(high, Math.round(value) || 0));
    setBudget(within);
    onBudget(within);
  };
  const to = (number) => number >= 0 && number < frames.length && put(frames[number].budget);
  return html`<div class="control"><label for="budget">Budget</label>
      <input id="budget" type="range" min=${low} max=${high} value=${budget} aria-valuetext=${`${figure(budget)} tokens`} onInput=${(e) => put(Number(e.target.value))} />
      <span class="with"><input type="number" aria-label="Budget in tokens" min=${low} max=${high} value=${budget} onChange=${(e) => put(Number(e.target.value))} />
      <button onClick=${() => to(frames[place].budget === budget ? place - 1 : place)} disabled=${place === 0 && frames[0].budget === budget}>Previous change</button><button onClick=${() => to(place + 1)} disabled=${place === frames.length - 1}>Next change</button>
      <button onClick=${() => put(own)} disabled=${budget === own}>Back to ${figure(own)}</button></span>
      <p role="status">${frame.error ? 'Too small.' : html`<b>${figure(frame.total, frame.exact)}</b> of ${figure(shown.budget)} tokens, ${spare(shown.budget - frame.total, frame.exact)}; ${changed === 0 ? 'the same decisions as' : `${figure(changed)} decided differently from`} at ${figure(own)}.`}
      ${exactHere ? ' Laid out, not interpolated.' : ` Laid out at ${figure(frame.budget)}, the nearest budget below ${figure(budget)} that this page holds.`}</p></div>
    <${Stage} record=${record} entry=${entry} frame=${shown} states=${states} scale=${high} chosen=${chosen} onChoose=${onChoose} />`;
}

export function Turns({ record, entry, chosen, onChoose }) {
  const [turn, setTurn] = useState(entry.frames.length - 1);
  const frame = entry.frames[turn];
  const before = useMemo(() => (turn > 0 && isSession(entry) ? entry.track(turn - 1) : null), [entry, turn]);
  const states = useMemo(() => entry.track(turn), [entry, turn]);
  const scale = useMemo(() => Math.max(1, ...entry.frames.map((one) => (one.total ?? 0) + (one.usage?.output ?? 0))), [entry]);
  const percent = (tokens) => `${(100 * (tokens ?? 0)) / scale}%`;
  const row = (number) => {
    const one = entry.frames[number];
    const usage = one.usage ?? {};
    const fresh = one.total === null ? null : usage.cached === null || usage.cached === undefined ? null : one.total - usage.cached;
    return html`<span class="name"><bdi>${one.label}</bdi><small>${one.note ?? ''}</small></span>
      <span class="meter stack" aria-hidden="true"><i class="warm" style=${{ width: percent(usage.cached) }}></i><i class="new" style=${{ width: percent(fresh ?? one.total) }}></i><i class="answer" style=${{ width: percent(usage.output) }}></i></span>
      <span class="figures">${figure(one.total, one.exact)}${usage.cached ? html` <small>${figure(usage.cached)} cached</small>` : ''}</span>
      <span class="figures cost">${usage.cost ? `${usage.cost_exact ? '' : '~'}$${usage.cost}` : ''}</span>`;
  };
  const usage = frame.usage;
  return html`<div class="control"><label for="turn">${isSession(entry) ? 'Turn' : 'Version'} <b>${turn + 1}</b> of ${entry.frames.length}</label>
      <input id="turn" type="range" min="0" max=${entry.frames.length - 1} value=${turn} onInput=${(e) => setTurn(Number(e.target.value))} />
      <p role="status"><b><bdi>${frame.label}</bdi></b>: ${figure(frame.total, frame.exact)} tokens in${usage && usage.output !== null ? `, ${figure(usage.output)} out` : ''}${usage && usage.cost ? `, ${usage.cost_exact ? '' : '~'}$${usage.cost}` : ''}.${frame.note ? ` ${frame.note}.` : ''}</p></div>
    <div class="turns"><${List} rows=${entry.frames.map((_, i) => i)} height=${40} label=${isSession(entry) ? 'Turns' : 'Versions'} chosen=${turn} onChoose=${setTurn} row=${row} keyOf=${(number) => number} />
      ${isSession(entry) && html`<ul class="legend"><li><span class="swatch warm"></span>from the cache</li><li><span class="swatch new"></span>new</li><li><span class="swatch answer"></span>answer</li></ul>`}</div>
    <${Stage} record=${record} entry=${entry} frame=${frame} states=${states} before=${before} waterfall=${frame.budget !== null} chosen=${chosen} onChoose=${onChoose} />`;
}

const AROUND = 240;

export function Compare({ record, sides }) {
  const [[left, right], setSides] = useState([0, Math.min(1, sides.length - 1)]);
  const read = (side) => {
    const { entry, track, at } = sides[side];
    const states = track(at).slice();
    return { entry, frame: sides[side].frame, states, prompt: promptOf(record, entry, sides[side].frame, states) };
  };
  const [one, other] = useMemo(() => [read(left), read(right)], [left, right]);
  const place = useMemo(() => (one.prompt === null || other.prompt === null ? undefined : firstDifference(one.prompt, other.prompt)), [one, other]);
  const rows = useMemo(() => {
    const byId = (side) => new Map(side.states.filter(isShown).map((state) => [side.entry.items[state.item].id, state]));
    const [a, b] = [byId(one), byId(other)];
    return [...new Set([...a.keys(), ...b.keys()])].map((id) => [id, a.get(id), b.get(id)])
      .filter(([, x, y]) => !x || !y || x.decision !== y.decision || x.size !== y.size || x.form !== y.form || record.text(x.ref) !== record.text(y.ref));
  }, [one, other]);
  const scale = Math.max(...[one, other].map((side) => Math.max(side.frame.budget ?? 0, side.frame.total ?? 0)));
  const picker = (side, label, at) => html`<label>${label} <select value=${side} onChange=${(e) => setSides(at ? [left, Number(e.target.value)] : [Number(e.target.value), right])}>
    ${sides.map((one, i) => html`<option value=${i}>${one.label}</option>`)}</select></label>`;
  const marked = (text) => text.slice(place.place).match(/^\s*./su)?.[0] ?? text.slice(place.place);
  const around = (text) => html`<pre class="around" dir="auto" tabindex="0">${place.place > AROUND ? '… ' : ''}${text.slice(Math.max(0, place.place - AROUND), place.place)}<mark>${marked(text) || '(the end)'}</mark>${text.slice(place.place + marked(text).length, place.place + AROUND)}</pre>`;
  const cell = (state, side) => state ? html`${state.decision}${state.form ? ` (${state.form})` : ''} <span class="figure">${figure(state.size, partsExact(side.frame))}</span>` : html`<span class="faint">not there</span>`;
  return html`<div class="control pair">${picker(left, 'Left', 0)} ${picker(right, 'Right', 1)}</div>
    ${[one, other].map((side, i) => html`<${Strip} key=${i} entry=${side.entry} frame=${side.frame} states=${side.states} chosen=${-1} onChoose=${() => {}} scale=${scale} label=${i ? 'Right' : 'Left'} />`)}
    <section class="panel"><h2>First changed byte</h2>
      ${place === undefined ? html`<p class="faint">The record does not contain both prompts.</p>` : place === null ? html`<p>The prompts are the same, byte for byte.</p>`
        : html`<p>Byte <b>${figure(place.byte)}</b>. Up to there a prompt cache can serve both; everything after it is read again.</p><div class="pair">${around(one.prompt)}${around(other.prompt)}</div>`}</section>
    <section class="panel"><h2>${rows.length ? `${figure(rows.length)} of the sections differ` : 'No section differs'}</h2>
      ${rows.length > 0 && html`<div class="scroll" tabindex="0" role="region" aria-label="Sections that differ"><table class="differ"><thead><tr><th scope="col">section</th><th scope="col">left</th><th scope="col">right</th></tr></thead>
        <tbody>${rows.slice(0, 500).map(([id, a, b]) => html`<tr><th scope="row"><bdi>${id}</bdi></th><td>${cell(a, one)}</td><td>${cell(b, other)}</td></tr>`)}</tbody></table>
        ${rows.length > 500 && html`<p class="faint">and ${figure(rows.length - 500)} more</p>`}</div>`}</section>`;
}

const TOKENS = 2000;

export function Prompt({ record, entry }) {
  const last = mainFrame(entry);
  const frame = entry.frames[last];
  const prompt = useMemo(() => promptOf(record, entry, frame, entry.track(last)), [entry]);
  const [on, setOn] = useState(false);
  const [page, setPage] = useState(0);
  useEffect(() => setPage(0), [entry]);
  const lengths = useMemo(() => (on && entry.boundaries !== null ? unpackLengths(entry.boundaries) : null), [entry, on]);
  if (prompt === null) return html`<p class="empty">The record does not contain the texts, so there is no prompt to show.</p>`;
  let body = html`<${Text} text=${prompt} label="The prompt" />`;
  if (lengths) {
    let place = 0;
    for (let i = 0; i < page * TOKENS; i += 1) place += lengths[i];
    const shown = lengths.slice(page * TOKENS, (page + 1) * TOKENS);
    let number = page * TOKENS;
    const spans = shown.map((length) => {
      const text = prompt.slice(place, place + length);
      place += length;
      number += 1;
      return html`<span class=${`token t${number % 4}`} title=${`token ${figure(number)}`}>${length ? text : '·'}</span>`;
    });
    const pages = Math.ceil(lengths.length / TOKENS);
    body = html`<div class="text tokens" tabindex="0" role="region" aria-label="The prompt, token by token"><pre dir="auto">${spans}</pre></div>
      ${pages > 1 && html`<p class="pager"><button disabled=${page === 0} onClick=${() => setPage(page - 1)}>Previous</button> tokens ${figure(page * TOKENS + 1)} to ${figure(Math.min(lengths.length, (page + 1) * TOKENS))} of ${figure(lengths.length)} <button disabled=${page === pages - 1} onClick=${() => setPage(page + 1)}>Next</button></p>`}`;
  }
  return html`<div class="control"><label class="check"><input type="checkbox" checked=${on} disabled=${entry.boundaries === null} onChange=${(e) => setOn(e.target.checked)} /> Show token boundaries</label>
    <p role="status">${entry.boundaries === null ? 'The tokenizer is an estimate or was not there, so there are no boundaries to show.' : lengths ? `${figure(lengths.length)} tokens. A dot is a token that holds part of a character.` : `${figure(prompt.length)} characters.`}</p></div>${body}`;
}
