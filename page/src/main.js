import { render } from 'preact';
import { useLayoutEffect, useState } from 'preact/hooks';
import { html } from './parts.js';
import { figure, isSession, mainFrame, readRecord, spare } from './record.js';
import { Compare, Prompt, Request, Steps, Turns, WhatIf } from './views.js';

function viewsOf(entry, sides) {
  const views = [['request', 'Request', Request]];
  if (entry.frames.length > 1) views.push(['turns', isSession(entry) ? 'Turns' : 'Before and after', Turns]);
  if (entry.slider) views.push(['whatif', 'What if', WhatIf]);
  if (entry.frames.some((frame) => frame.steps)) views.push(['steps', 'Steps', Steps]);
  if (sides.length > 1) views.push(['compare', 'Compare', Compare]);
  views.push(['prompt', 'Prompt', Prompt]);
  return views;
}

// The sides for a comparison: every frame of every entry, and some budgets of the slider.
function sidesOf(record) {
  const found = [];
  for (const entry of record.entries) {
    entry.frames.forEach((frame, at) => found.push({ entry, frame, at, track: entry.track, label: `${entry.title}${frame.label ? `: ${frame.label}` : ''}` }));
  }
  for (const entry of record.entries.filter((one) => one.slider)) {
    const frames = entry.slider.frames;
    const step = Math.max(1, Math.floor(frames.length / 40));
    frames.forEach((frame, at) => at % step === 0 && !frame.error
      && found.push({ entry, frame, at, track: entry.slider.track, label: `${entry.title} in ${figure(frame.budget)} tokens` }));
  }
  return found;
}

const THEMES = ['auto', 'light', 'dark'];

function Page({ record }) {
  const [number, setNumber] = useState(0);
  const [view, setView] = useState('request');
  const [chosen, setChosen] = useState(-1);
  const [theme, setTheme] = useState('auto');
  useLayoutEffect(() => { document.documentElement.dataset.theme = theme; }, [theme]); // in the frame that names it
  const entry = record.entries[number];
  if (!entry) return html`<p class="empty">This page holds no record.</p>`;
  const views = viewsOf(entry, record.sides);
  const at = Math.max(0, views.findIndex(([name]) => name === view));
  const [name, , View] = views[at];
  const frame = entry.frames[mainFrame(entry)];
  const free = frame.budget === null || frame.total === null ? null : frame.budget - frame.total;
  const keys = (event) => {
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: views.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = views[(to + views.length) % views.length][0];
    setView(next);
    document.getElementById(`tab-${next}`).focus();
  };
  const open = (to) => { setNumber(to); setChosen(-1); };
  return html`
    <header class="top">
      <p class="brand">tokenbox <span>inspector</span></p>
      ${record.entries.length > 1 && html`<label class="files"><span class="unseen">File</span><select value=${number} onChange=${(e) => open(Number(e.target.value))}>
        ${record.entries.map((one, i) => html`<option value=${i}>${one.title}</option>`)}</select></label>`}
      <button class="theme" onClick=${() => setTheme(THEMES[(THEMES.indexOf(theme) + 1) % 3])}>Theme: ${theme}</button>
    </header>
    <div class="headline">
      <p class="kind">${entry.kind}</p>
      <h1><bdi>${entry.title}</bdi></h1>
      <p class="sum"><b>${figure(frame.total, frame.exact)}</b>${frame.budget === null ? ' tokens' : ` of ${figure(frame.budget)} tokens`}${free === null ? '' : html`<span class=${free < 0 ? 'over' : 'free'}>${spare(free, frame.exact)}</span>`}</p>
    </div>
    ${entry.verdict && html`<section class=${`verdict ${entry.verdict.ok ? 'ok' : 'no'}`} aria-label="Decision"><h2>${entry.verdict.title}</h2>${entry.verdict.lines.length > 0 && html`<ul>${entry.verdict.lines.map((line) => html`<li>${line}</li>`)}</ul>`}</section>`}
    ${entry.notes.length > 0 && html`<ul class="notes">${entry.notes.slice(0, 20).map((note) => html`<li>${note}</li>`)}</ul>`}
    <div class="tabs" role="tablist" aria-label="Views" onKeyDown=${keys}>
      ${views.map(([one, label]) => html`<button role="tab" id=${`tab-${one}`} aria-selected=${one === name ? 'true' : 'false'} aria-controls="view" tabindex=${one === name ? 0 : -1} onClick=${() => setView(one)}>${label}</button>`)}
    </div>
    <div id="view" role="tabpanel" aria-labelledby=${`tab-${name}`} key=${`${number} ${name}`}>
      <${View} record=${record} entry=${entry} sides=${record.sides} chosen=${chosen} onChoose=${setChosen} /></div>
    <footer><dl class="facts">${entry.facts.map(([label, value]) => html`<div><dt>${label}</dt><dd><bdi>${value}</bdi></dd></div>`)}</dl>
      <p class="faint">tokenbox ${record.version}. This page is one file; it loads nothing and sends nothing.</p></footer>`;
}

const record = readRecord(document.getElementById('record').textContent);
record.sides = sidesOf(record);
const app = document.getElementById('app');
app.textContent = '';
render(html`<${Page} record=${record} />`, app);
document.documentElement.dataset.ready = 'true';
